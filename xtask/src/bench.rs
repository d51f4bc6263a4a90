//! `cargo xtask bench`: builds everything optimised and measures it.

use crate::sh;

/// Builds the program and the bench in release mode, then runs the bench; `args` go to it.
pub fn run(args: &[String]) -> Result<bool, String> {
    if !sh::run(sh::cargo().args([
        "build",
        "--release",
        "--package",
        "keyward-cli",
        "--package",
        "keyward-bench",
    ]))? {
        return Ok(false);
    }
    sh::run(
        sh::cargo()
            .args(["run", "--quiet", "--release", "--package", "keyward-bench", "--"])
            .args(args),
    )
}

/// Compares the compiled index of image patterns with the rules taken one by one.
pub fn fuzz_match(args: &[String]) -> Result<bool, String> {
    sh::run(
        sh::cargo()
            .args(["run", "--quiet", "--release", "--package", "keyward-bench"])
            .args(["--bin", "fuzz-match", "--"])
            .args(args),
    )
}
