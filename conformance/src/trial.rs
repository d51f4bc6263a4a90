//! One run: generates, asks both sides, compares, shrinks what differs and counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use crate::{
    areas::{AREAS, Area, Verdict},
    generate::Generator,
    kubectl::Judge,
    reference::{Answer, Reference},
    shrink::shrink,
};

/// How many cases are put to the reference at once.
const BATCH: usize = 500;

/// How many differences of one area are shrunk and shown; more of the same kind say little.
const SHOWN: usize = 12;

/// What to run.
pub struct Settings {
    /// Over all areas.
    pub cases: usize,
    /// The same seed makes the same cases.
    pub seed: u64,
    pub only: Option<Only>,
    /// Does without a judge that the machine lacks.
    pub lenient: bool,
}

/// One part alone, with all the cases.
pub enum Only {
    Area(&'static Area),
    /// The second judge.
    Kubectl,
}

/// What came of it in one area.
#[derive(Default)]
struct Row {
    same: usize,
    departed: BTreeMap<&'static str, usize>,
    unstable: usize,
    unput: usize,
    failed: usize,
}

impl Row {
    fn passed(&self) -> usize {
        self.same + self.departed.values().sum::<usize>()
    }
}

/// Runs, prints a table by area and `N passed, M failed`; whether none failed.
pub fn run(root: &Path, settings: &Settings, reference: &mut Reference) -> Result<bool, String> {
    let mut table = Vec::new();
    let areas = match settings.only {
        None => AREAS,
        Some(Only::Area(area)) => std::slice::from_ref(area),
        Some(Only::Kubectl) => &[],
    };
    for area in areas {
        let share = if settings.only.is_some() { 100 } else { area.share };
        let seeds = area.vectors(&root.join("vectors"))?.unwrap_or_default();
        let mut generator = Generator::new(area.name, seeds, settings.seed);
        let row = trial(area, settings.cases * share / 100, &mut generator, reference)?;
        eprintln!("{}: {} passed, {} failed", area.name, row.passed(), row.failed);
        table.push((area, row));
    }
    show(&table);
    let mut passed: usize = table.iter().map(|(_, row)| row.passed()).sum();
    let mut failed: usize = table.iter().map(|(_, row)| row.failed).sum();
    let judged = match settings.only {
        None => (settings.cases / 500).clamp(8, 200),
        Some(Only::Area(_)) => 0,
        Some(Only::Kubectl) => settings.cases,
    };
    if judged > 0 {
        match Judge::find(root) {
            Err(why) => println!("kubectl: did not judge: {why}"),
            Ok(judge) => {
                let (same, differ) = judge.run(judged, settings.seed)?;
                println!("{:<18}{same:>9}{:>12}{:>10}{differ:>8}", "kubectl", 0, 0);
                passed += same;
                failed += differ;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0 && passed > 0)
}

fn trial(
    area: &Area,
    cases: usize,
    generator: &mut Generator,
    reference: &mut Reference,
) -> Result<Row, String> {
    let mut row = Row::default();
    let mut shown = BTreeSet::new();
    let mut left = cases;
    // Cases that cannot be put count for nothing, but must not keep us here for ever.
    let mut patience = 2 * cases;
    while left > 0 && patience > 0 {
        let batch: Vec<Value> = (0..left.min(BATCH)).map(|_| generator.next()).collect();
        patience = patience.saturating_sub(batch.len());
        for answer in reference.ask(area, &batch)? {
            match answer {
                Answer::Unstable => row.unstable += 1,
                Answer::Broken(_) => row.unput += 1,
                Answer::Is(case, _) => {
                    left -= 1;
                    match area.judge(&case) {
                        Verdict::Same => row.same += 1,
                        Verdict::Departs(reason) => *row.departed.entry(reason).or_default() += 1,
                        Verdict::Differs(difference) => {
                            row.failed += 1;
                            if shown.len() < SHOWN && shown.insert(kind(&difference)) {
                                report(area, &case, &difference, reference)?;
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(row)
}

/// A difference without what varies from case to case.
fn kind(difference: &str) -> String {
    let words = difference.split(|c: char| !c.is_ascii_alphabetic() && c != '_');
    words.filter(|word| word.len() > 3).take(9).collect::<Vec<_>>().join(" ")
}

fn report(
    area: &Area,
    case: &Value,
    difference: &str,
    reference: &mut Reference,
) -> Result<(), String> {
    let (case, difference, said) = shrink(area, case, reference)?
        .unwrap_or_else(|| (case.clone(), difference.to_owned(), "(not again)".to_owned()));
    println!("\n{}: {difference}\n  the reference says: {said}\n  case: {case}\n", area.name);
    Ok(())
}

fn show(table: &[(&Area, Row)]) {
    println!("\n{:<18}{:>9}{:>12}{:>10}{:>8}", "area", "same", "on purpose", "unstable", "failed");
    for (area, row) in table {
        let departed: usize = row.departed.values().sum();
        println!(
            "{:<18}{:>9}{departed:>12}{:>10}{:>8}",
            area.name, row.same, row.unstable, row.failed
        );
        if row.unput > 0 {
            println!("  {} could not be put to the reference", row.unput);
        }
        for (reason, count) in &row.departed {
            println!("  {count} on purpose: {reason}");
        }
    }
}
