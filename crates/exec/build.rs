//! Leaves the unwind tables out of the program as it is shipped.

#![expect(clippy::disallowed_methods, reason = "cargo talks to a build script by its environment")]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=no-unwinding.ld");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // A build script is not told the panic strategy. Only the profile `exec`, which aborts, optimises
    // for size.
    if is("OPT_LEVEL", "s") && is("CARGO_CFG_TARGET_OS", "linux") {
        let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{directory}/no-unwinding.ld");
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
    }
}
