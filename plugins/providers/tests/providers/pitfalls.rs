//! Every pitfall that other tools have fallen into has a test with its number.

use std::{collections::BTreeSet, fs, path::Path};

/// The pitfalls on the pages of the providers.
const COUNT: u32 = 40;

#[test]
fn every_pitfall_has_a_test_with_its_number() {
    let mut found = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for directory in [root.join("src"), root.join("tests"), root.join("../../crates/image/src")] {
        collect(&directory, &mut found);
    }
    let missing: Vec<_> = (1..=COUNT).filter(|number| !found.contains(number)).collect();
    assert!(missing.is_empty(), "no test for the pitfalls {missing:?}");
    assert!(found.iter().all(|number| (1..=COUNT).contains(number)), "{found:?}");
}

fn collect(directory: &Path, found: &mut BTreeSet<u32>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("\nfn pitfall_").chain(text.split(" fn pitfall_")).skip(1) {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                found.extend(digits.parse::<u32>());
            }
        }
    }
}
