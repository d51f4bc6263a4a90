//! `cargo xtask check`: the gates for ourselves.

use crate::{chart, pages, sh, shipped};

/// Format, lints, documentation, pages, features, packages, chart, dependencies, licences and sources; all of
/// them run, whichever fails.
pub fn run() -> Result<bool, String> {
    let mut ok = sh::run(sh::cargo().args(["fmt", "--all", "--check"]))?;
    // Shipped code is held to every lint.
    ok &= sh::run(sh::cargo().args([
        "clippy",
        "--workspace",
        "--lib",
        "--bins",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))?;
    // Tests may start programs, ask the time and unwrap; everything else holds for them too.
    let mut tests =
        vec!["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    for lint in RELAXED_IN_TESTS {
        tests.extend(["-A", lint]);
    }
    ok &= sh::run(sh::cargo().args(tests))?;
    ok &= sh::run(
        sh::cargo()
            .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    ok &= pages::check(crate::root())?;
    ok &= shipped::check_features()?;
    ok &= shipped::check_packages()?;
    ok &= chart::check()?;
    // What a test depends on is no matter of the crates' order.
    ok &= deny(&["--exclude-dev"], &["bans"])?;
    ok &= deny(&[], &["licenses", "sources"])?;
    println!("check: {}", if ok { "clean" } else { "not clean, see above" });
    Ok(ok)
}

/// Known vulnerabilities of what we depend on. Needs the advisory database, which is no package
/// registry: hence a command of its own.
pub fn advisories() -> Result<bool, String> {
    deny(&[], &["advisories"])
}

const RELAXED_IN_TESTS: &[&str] = &[
    "clippy::disallowed_methods",
    "clippy::unwrap_used",
    "clippy::print_stdout",
    "clippy::print_stderr",
    "missing_docs",
];

fn deny(graph: &[&str], what: &[&str]) -> Result<bool, String> {
    if !sh::has("cargo-deny") && !sh::run(sh::cargo().args(["install", "--locked", "cargo-deny"]))?
    {
        return Err("cargo-deny is missing and could not be installed".into());
    }
    sh::run(sh::cargo().args(["deny", "--log-level", "error"]).args(graph).arg("check").args(what))
}
