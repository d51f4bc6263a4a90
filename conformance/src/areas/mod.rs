//! What there is to compare, and how our code answers each kind of case.

mod exec_info_helper;
mod exec_input;
mod exec_output;
mod image_match;
mod keyring;
mod kubeconfig;
mod kubelet_config;
mod kubelet_request;
mod kubelet_response;
mod plugin_policy;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use serde_json::Value;

use crate::departures;

pub(crate) use self::{
    exec_info_helper::found as helper, exec_input::CHAIN, exec_output::found as output,
};

/// Runs one case; `Err` says how we differ from the reference.
pub(crate) type Check = fn(&Value) -> Result<(), String>;

/// A kind of case, called like its vector file.
#[derive(Clone, Copy)]
pub struct Area {
    /// The name of the vector file.
    pub name: &'static str,
    check: Check,
    /// How many of a hundred generated cases are of this kind; those that start processes are dear.
    pub share: usize,
}

/// All of them.
pub const AREAS: &[Area] = &[
    Area { name: "exec-output", check: exec_output::check, share: 12 },
    Area { name: "exec-input", check: exec_input::check, share: 4 },
    Area { name: "exec-info-helper", check: exec_info_helper::check, share: 13 },
    Area { name: "kubeconfig", check: kubeconfig::check, share: 15 },
    Area { name: "plugin-policy", check: plugin_policy::check, share: 4 },
    Area { name: "image-match", check: image_match::check, share: 20 },
    Area { name: "keyring", check: keyring::check, share: 13 },
    Area { name: "kubelet-config", check: kubelet_config::check, share: 12 },
    Area { name: "kubelet-request", check: kubelet_request::check, share: 2 },
    Area { name: "kubelet-response", check: kubelet_response::check, share: 5 },
];

/// The difference that no rule excuses.
const PANIC: &str = "we panic";

/// What became of a case.
pub enum Verdict {
    /// We do as the reference does.
    Same,
    /// We do otherwise on purpose, for this reason.
    Departs(&'static str),
    /// We do otherwise, and nobody knows why.
    Differs(String),
}

impl Area {
    /// The area of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        AREAS.iter().find(|area| area.name == name)
    }

    /// Judges a case that has its `expect`.
    pub fn judge(&self, case: &Value) -> Verdict {
        let checked = catch_unwind(AssertUnwindSafe(|| (self.check)(case)));
        match checked.unwrap_or_else(|_| Err(PANIC.to_owned())) {
            Ok(()) => Verdict::Same,
            Err(difference) if difference == PANIC => Verdict::Differs(difference),
            Err(difference) => match departures::explains(self.name, case, self.check) {
                Some(reason) => Verdict::Departs(reason),
                None => Verdict::Differs(difference),
            },
        }
    }

    /// The cases of its vector file in `folder`.
    pub fn vectors(&self, folder: &Path) -> Result<Vec<Value>, String> {
        let path = folder.join(format!("{}.json", self.name));
        let text = fs::read(&path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        serde_json::from_slice(&text).map_err(|e| format!("`{}`: {e}", path.display()))
    }
}

/// How many cases were as they should be.
#[derive(Default, Clone, Copy)]
pub struct Tally {
    /// As the reference has it, or otherwise on purpose.
    pub passed: usize,
    /// Cases that passed although we differ from the reference, on purpose.
    pub departed: usize,
    /// Neither.
    pub failed: usize,
}

/// Runs every vector file of `folder`, names each failure, and ends with `N passed, M failed`.
pub fn run(folder: &Path) -> Result<Tally, String> {
    let mut total = Tally::default();
    for area in AREAS {
        let name = area.name;
        let cases = area.vectors(folder)?;
        let mut tally = Tally::default();
        for case in &cases {
            let label = case["name"].as_str().unwrap_or("(unnamed)");
            match area.judge(case) {
                Verdict::Same => tally.passed += 1,
                Verdict::Departs(rule) => {
                    println!("{name}/{label}: departs on purpose: {rule}");
                    tally.passed += 1;
                    tally.departed += 1;
                }
                Verdict::Differs(difference) => {
                    println!("{name}/{label}: {difference}");
                    tally.failed += 1;
                }
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
