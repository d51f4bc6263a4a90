//! `cargo xtask soak`: builds the soak optimised and runs it.

use crate::sh;

/// Runs it; `args` go to it.
pub fn run(args: &[String]) -> Result<bool, String> {
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
