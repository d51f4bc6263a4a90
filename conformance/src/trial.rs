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
    obstacle::Obstacle,
    reference::{Answer, Reference},
    shrink::{Difference, shrink},
    terminal, transport,
};

/// How many cases are put to the reference at once.
const BATCH: usize = 500;

/// How many differences of one area are shrunk and shown; more of the same kind say little.
const SHOWN: usize = 12;

/// From so many cases on it is a full run, with at least so many in every area.
const FULL: usize = 200_000;
const LEAST: usize = 5_000;

/// An ordinary run has one of so many combinations. The numbers share no divisor with those of the choices, so that each
/// choice comes up.
const CONNECTIONS: usize = 23;
const TERMINALS: usize = 7;

/// What to run.
pub struct Settings {
    /// Over all areas.
    pub cases: usize,
    /// Equal seeds make equal cases.
    pub seed: u64,
    pub only: Option<Only>,
    /// Does without a judge that the machine lacks.
    pub lenient: bool,
}

/// One part alone, with all the cases.
pub enum Only {
    Area(&'static Area),
    /// A part that kubectl judges.
    Judge(Part),
}

/// What kubectl judges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Plugins and requests.
    Kubectl,
    /// Connections.
    Transport,
    /// What a person sees.
    Terminal,
}

/// What came of it in one area.
#[derive(Default)]
pub(crate) struct Row {
    same: usize,
    departed: usize,
    /// What differs on purpose, and in how many cases; more than one thing may in one.
    reasons: BTreeMap<&'static str, usize>,
    unstable: usize,
    unput: usize,
    pub(crate) failed: usize,
}

impl Row {
    fn passed(&self) -> usize {
        self.same + self.departed
    }

    /// Counts a case that is the same but for these.
    pub(crate) fn pass(&mut self, reasons: &[&'static str]) {
        if reasons.is_empty() {
            self.same += 1;
        } else {
            self.departed += 1;
        }
        for reason in reasons {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// How many cases were put, answered and compared.
    fn judged(&self) -> usize {
        self.passed() + self.failed
    }
}

/// Runs, prints a table by area and `N passed, M failed`; whether none failed. A part that could not be
/// judged as far as asked is an error.
pub fn run(root: &Path, settings: &Settings, reference: &mut Reference) -> Result<bool, String> {
    let mut table = Vec::new();
    let mut short = Vec::new();
    let areas = match settings.only {
        None => AREAS,
        Some(Only::Area(area)) => std::slice::from_ref(area),
        Some(Only::Judge(_)) => &[],
    };
    for area in areas {
        let seeds = area.vectors(&root.join("vectors"))?;
        let mut generator = Generator::new(area.name, seeds, settings.seed);
        let wanted = settings.share(area);
        let row = trial(area, wanted, &mut generator, reference)?;
        eprintln!("{}: {} passed, {} failed", area.name, row.passed(), row.failed);
        if row.judged() < wanted {
            short.push(format!("{}: {} of {wanted} cases were judged", area.name, row.judged()));
        }
        table.push((area.name, row));
    }
    if !matches!(settings.only, Some(Only::Area(_))) {
        match beside_kubectl(root, settings) {
            Ok(rows) => table.extend(rows),
            Err(Obstacle::Absent(why)) if settings.lenient => {
                println!("kubectl: did not judge: {why}");
            }
            Err(why) => short.push(format!("kubectl: did not judge: {why}")),
        }
    }
    show(&table);
    let passed: usize = table.iter().map(|(_, row)| row.passed()).sum();
    let failed: usize = table.iter().map(|(_, row)| row.failed).sum();
    println!("{passed} passed, {failed} failed");
    if short.is_empty() {
        Ok(failed == 0)
    } else {
        Err(format!("not all was judged\n  {}", short.join("\n  ")))
    }
}

/// The parts that kubectl judges.
fn beside_kubectl(root: &Path, settings: &Settings) -> Result<Vec<(&'static str, Row)>, Obstacle> {
    let judge = Judge::find()?;
    Ok(match settings.only {
        Some(Only::Judge(Part::Transport)) => {
            vec![("transport", transport::run(root, &judge, 1)?)]
        }
        Some(Only::Judge(Part::Terminal)) => vec![("terminal", terminal::run(&judge, 1)?)],
        Some(Only::Judge(Part::Kubectl)) => {
            vec![("kubectl", judge.run(settings.cases, settings.seed)?)]
        }
        _ => {
            let cases = (settings.cases / 500).clamp(8, 200);
            vec![
                ("kubectl", judge.run(cases, settings.seed)?),
                ("transport", transport::run(root, &judge, CONNECTIONS)?),
                ("terminal", terminal::run(&judge, TERMINALS)?),
            ]
        }
    })
}

impl Settings {
    /// How many cases of this area there must be.
    fn share(&self, area: &Area) -> usize {
        match self.only {
            Some(_) => self.cases,
            None if self.cases >= FULL => (self.cases * area.share / 100).max(LEAST),
            None => (self.cases * area.share).div_ceil(100),
        }
    }
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
    // Cases that cannot be put count for nothing, but must not keep us here forever.
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
                        Verdict::Same => row.pass(&[]),
                        Verdict::Departs(reason) => row.pass(&[reason]),
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
    let mut ask = |cases: &[Value]| {
        let judge = |answer| match answer {
            Answer::Is(case, said) => match area.judge(&case) {
                Verdict::Differs(found) => Some(Difference { case, found, said }),
                _ => None,
            },
            _ => None,
        };
        Ok(reference.ask(area, cases)?.into_iter().map(judge).collect())
    };
    let Difference { case, found, said } = shrink(case, &mut ask)?.unwrap_or_else(|| Difference {
        case: case.clone(),
        found: difference.to_owned(),
        said: "(not again)".to_owned(),
    });
    println!("\n{}: {found}\n  the reference says: {said}\n  case: {case}\n", area.name);
    Ok(())
}

fn show(table: &[(&str, Row)]) {
    println!("\n{:<18}{:>9}{:>12}{:>10}{:>8}", "area", "same", "on purpose", "unstable", "failed");
    for (name, row) in table {
        println!(
            "{name:<18}{:>9}{:>12}{:>10}{:>8}",
            row.same, row.departed, row.unstable, row.failed
        );
        if row.unput > 0 {
            println!("  {} could not be put to the reference", row.unput);
        }
        for (reason, count) in &row.reasons {
            println!("  {count} on purpose: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_has_enough_cases_of_every_area() {
        let settings = |cases, only| Settings { cases, seed: 1, only, lenient: false };
        for area in AREAS {
            assert!(settings(FULL, None).share(area) >= LEAST, "{}", area.name);
            assert!(settings(1, None).share(area) >= 1, "{}", area.name);
            assert_eq!(settings(7, Some(Only::Area(area))).share(area), 7);
        }
        assert_eq!(AREAS.iter().map(|area| area.share).sum::<usize>(), 100);
    }
}
