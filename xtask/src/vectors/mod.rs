//! Runs the cases that the reference implementation produced through the real code.

mod departures;
mod exec_info_helper;
mod exec_input;
mod exec_output;
mod image_match;
mod keyring;
mod kubeconfig;
mod kubelet_config;
mod kubelet_response;
mod plugin_policy;

use std::{fs, path::Path};

use serde_json::Value;

use crate::test::Count;

/// Runs one case; `Err` says how we differ from the reference.
type Check = fn(&Value) -> Result<(), String>;

/// The vector files we know, by name.
const FILES: &[(&str, Check)] = &[
    ("exec-output", exec_output::check),
    ("exec-input", exec_input::check),
    ("exec-info-helper", exec_info_helper::check),
    ("kubeconfig", kubeconfig::check),
    ("plugin-policy", plugin_policy::check),
    ("image-match", image_match::check),
    ("keyring", keyring::check),
    ("kubelet-config", kubelet_config::check),
    ("kubelet-response", kubelet_response::check),
];

/// Runs every vector file of `folder`, names each failure, and ends with `N passed, M failed`.
pub fn run(folder: &Path) -> Result<Count, String> {
    let mut total = Count::default();
    for (name, check) in FILES {
        let path = folder.join(format!("{name}.json"));
        if !path.exists() {
            println!("{name}: no such file in {}", folder.display());
            continue;
        }
        let text = fs::read(&path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        let cases: Vec<Value> =
            serde_json::from_slice(&text).map_err(|e| format!("`{}`: {e}", path.display()))?;
        let mut tally = Tally::default();
        for case in &cases {
            let label = case["name"].as_str().unwrap_or("(unnamed)");
            match check(case) {
                Ok(()) => tally.passed += 1,
                Err(difference) => match departures::explains(name, case) {
                    Some(rule) => {
                        println!("{name}/{label}: departs on purpose: {rule}");
                        tally.passed += 1;
                        tally.departed += 1;
                    }
                    None => {
                        println!("{name}/{label}: {difference}");
                        tally.failed += 1;
                    }
                },
            }
        }
        println!(
            "{name}: {} of {} as the reference, {} on purpose otherwise, {} failed",
            tally.passed - tally.departed,
            cases.len(),
            tally.departed,
            tally.failed
        );
        total.passed += tally.passed;
        total.failed += tally.failed;
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total)
}

#[derive(Default)]
struct Tally {
    passed: usize,
    departed: usize,
    failed: usize,
}
