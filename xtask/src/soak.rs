//! `cargo xtask soak`: builds the soak optimised and runs it.

use crate::sh;

/// Runs it; `args` go to it.
pub fn run(args: &[String]) -> Result<bool, String> {
    sh::run(
        sh::cargo()
            .args(["run", "--quiet", "--release", "--package", "keyward-soak", "--"])
            .args(args),
    )
}
