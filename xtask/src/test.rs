//! `cargo xtask test`: installs what the tests need, runs all of them, counts them.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use crate::{packages, sh};

/// Runs every test and doctest of the workspace, then the vectors. The last line is
/// `N passed, M failed`.
pub fn run(filter: &[String]) -> Result<bool, String> {
    packages::install()?;
    let mut total = Count::default();
    // No `--all-targets`: it would build the examples as tests, and tests start them as programs.
    let mut command = sh::cargo();
    // No crate of the workspace enables the adapter to `metrics`, but it has tests.
    let features = ["--features", "keyward-host/metrics"];
    command.args(["test", "--workspace", "--no-fail-fast"]).args(features).args(filter);
    let ok = count(&mut command, &mut total)?;
    if filter.is_empty() {
        let vectors = keyward_conformance::areas::run(&crate::root().join("vectors"))?;
        total.passed += vectors.passed;
        total.failed += vectors.failed;
    }
    if !ok && total.failed == 0 {
        println!("something failed before its tests could run; see above");
        total.failed = 1;
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0 && total.passed > 0)
}

/// Tests that ran.
#[derive(Default, Clone, Copy)]
pub struct Count {
    /// As they should.
    pub passed: usize,
    /// Otherwise.
    pub failed: usize,
}

/// Runs a `cargo test`, shows its output and adds up its `test result:` lines.
fn count(command: &mut Command, total: &mut Count) -> Result<bool, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    let stdout = child.stdout.take().ok_or("cargo has no stdout")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("cannot read cargo's output: {e}"))?;
        if let Some(result) = line.strip_prefix("test result:") {
            total.passed += number_before(result, "passed");
            total.failed += number_before(result, "failed");
        }
        println!("{line}");
    }
    let status = child.wait().map_err(|e| format!("cannot wait for cargo: {e}"))?;
    Ok(status.success())
}

/// The number in front of `word` in `ok. 3 passed; 0 failed; …`.
fn number_before(text: &str, word: &str) -> usize {
    let mut last = 0;
    for token in text.split([' ', ';']).filter(|t| !t.is_empty()) {
        if token == word {
            return last;
        }
        last = token.parse().unwrap_or(last);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_a_result_line() {
        let line = " ok. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!((number_before(line, "passed"), number_before(line, "failed")), (12, 3));
    }
}
