//! `cargo xtask fuzz-proxy`: the long version of a test, optimised.

use crate::sh;

/// Ten minutes, or `--seconds N`, of odd requests; `--seed N` for the same again.
pub fn proxy(args: &[String]) -> Result<bool, String> {
    let mut command = sh::cargo();
    command
        .args(["test", "--release", "--package", "keyward-cli", "--test", "proxy"])
        .args(["fuzz", "--", "--nocapture"])
        .env("KEYWARD_FUZZ_SECONDS", "600");
    for pair in args.chunks(2) {
        match pair {
            [name, value] if name == "--seconds" => command.env("KEYWARD_FUZZ_SECONDS", value),
            [name, value] if name == "--seed" => command.env("KEYWARD_FUZZ_SEED", value),
            _ => return Err("usage: cargo xtask fuzz-proxy [--seconds N] [--seed N]".to_owned()),
        };
    }
    sh::run(&mut command)
}
