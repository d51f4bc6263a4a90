//! `cargo xtask conformance`: builds the harness and runs it.

use crate::sh;

/// Runs it; `args` go to it.
pub fn run(args: &[String]) -> Result<bool, String> {
    sh::run(
        sh::cargo().args(["run", "--quiet", "--package", "keyward-conformance", "--"]).args(args),
    )
}
