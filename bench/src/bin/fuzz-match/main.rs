//! The compiled index, and each compiled pattern alone, against a plain matcher that tries one pattern
//! after the other, over pairs of patterns and images made up from a seed.
//!
//! `fuzz-match [--pairs N] [--seed N]`, or `cargo xtask fuzz-match`. It fails on the first list of
//! patterns for which both do not find the same ones, and when too few pairs match to mean anything.

mod pairs;
mod plain;

use std::{env, process::ExitCode};

use keyward_image::{Index, Name, Pattern, Reading};

use self::{
    pairs::{Chance, Group},
    plain::Plain,
};

const USAGE: &str = "usage: fuzz-match [--pairs N] [--seed N]";

fn main() -> ExitCode {
    let mut wanted = 1_000_000;
    let mut seed = 1;
    let mut args = env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().and_then(|text| text.replace('_', "").parse().ok());
        match (flag.as_str(), value) {
            ("--pairs", Some(value)) => wanted = value,
            ("--seed", Some(value)) => seed = value,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let tally = run(wanted, seed);
    println!("{} pairs, {} matches, {} differences", tally.pairs, tally.matches, tally.differences);
    let enough = tally.matches * 10 >= tally.pairs;
    if !enough {
        println!("fewer than a tenth match: the pairs say too little");
    }
    ExitCode::from(u8::from(tally.differences > 0 || !enough))
}

/// What was seen.
#[derive(Default)]
struct Tally {
    pairs: u64,
    matches: u64,
    differences: u64,
}

/// How ports and paths may be compared.
const READINGS: [Reading; 3] = [Reading::Kubelet, Reading::Segments, Reading::Proposal];

/// Compares at least `wanted` pairs, from this seed on.
fn run(wanted: u64, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut chance = Chance::new(seed);
    while tally.pairs < wanted {
        let group = Group::new(&mut chance);
        let reading = chance.pick(&[READINGS[0], READINGS[0], READINGS[1], READINGS[2]]);
        compare(&group, reading, &mut tally);
    }
    tally
}

/// Compares every pattern of a group with every image of it.
fn compare(group: &Group, reading: Reading, tally: &mut Tally) {
    let compiled: Vec<Option<Pattern>> =
        group.patterns.iter().map(|text| Pattern::parse(text).ok()).collect();
    let places: Vec<usize> =
        compiled.iter().enumerate().filter_map(|(place, p)| p.is_some().then_some(place)).collect();
    let index = Index::new(compiled.iter().flatten(), reading);
    let plain: Vec<Option<Plain>> = group.patterns.iter().map(|text| Plain::parse(text)).collect();
    for image in &group.images {
        let mut found = vec![false; group.patterns.len()];
        let name = Name::parse(image);
        if let Some(name) = &name {
            index.each_match(name, |number| found[places[number]] = true);
        }
        let image_plain = Plain::parse(image);
        for (number, pattern) in plain.iter().enumerate() {
            let expected = match (pattern, &image_plain) {
                (Some(pattern), Some(image)) => pattern.means(image, reading),
                _ => false,
            };
            let alone = match (&compiled[number], &name) {
                (Some(pattern), Some(name)) => pattern.matches(name, reading),
                _ => false,
            };
            tally.pairs += 1;
            tally.matches += u64::from(expected);
            if expected != found[number] || expected != alone {
                tally.differences += 1;
                if tally.differences <= 20 {
                    println!(
                        "{reading:?}: pattern {:?}, image {image:?}: the index says {}, the pattern alone \
                         {alone}, the rules {expected}",
                        group.patterns[number], found[number]
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_finds_what_the_rules_say_in_two_hundred_thousand_pairs() {
        let tally = run(200_000, 7);
        assert_eq!(tally.differences, 0);
        assert!(tally.matches * 10 >= tally.pairs, "only {} match", tally.matches);
    }
}
