//! `cargo xtask soak`: builds the soak optimised and runs it.

use crate::sh;

/// Runs it; `args` go to it.
pub fn run(args: &[String]) -> Result<bool, String> {
    if args.iter().any(|arg| arg == "--agent") {
        return agent();
    }
    // The proxy is a program of its own.
    if args.iter().any(|arg| arg == "--proxy")
        && !sh::run(sh::cargo().args(["build", "--release", "--package", "keyward-cli"]))?
    {
        return Ok(false);
    }
    if args.iter().any(|arg| arg == "--agent") {
        let packages = ["keyward-agent", "keyward-cli", "keyward-exec"];
        let packages = packages.into_iter().flat_map(|name| ["--package", name]);
        if !sh::run(sh::cargo().args(["build", "--release", "--bins"]).args(packages))? {
            return Ok(false);
        }
    }
    sh::run(
        sh::cargo()
            .args(["run", "--quiet", "--release", "--package", "keyward-soak", "--"])
            .args(args),
    )
}

/// The agent's own tests, a hundred rounds of processes that all start at once among them.
fn agent() -> Result<bool, String> {
    let tests = ["many::", "crash::", "handover::"];
    sh::run(
        sh::cargo()
            .args(["test", "--release", "--package", "keyward-exec", "--test", "agent", "--"])
            .args(tests)
            .env("KEYWARD_AGENT_ROUNDS", "100"),
    )
}
