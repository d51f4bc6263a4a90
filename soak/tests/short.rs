//! The short version of the soak, as it is and with something broken.

#![allow(clippy::unwrap_used)]

use std::process::Command;

fn soak(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_soak")).args(args).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_promise_holds_for_a_few_seconds() {
    let (good, text) = soak(&["--seconds", "9"]);
    assert!(good, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("  holds ")).count(), 6, "{text}");
}

#[test]
fn what_is_broken_is_named() {
    // One after the other: together they would be a load of their own.
    for (sabotage, promise) in [
        ("issuer", "requests"),
        ("connections", "watches"),
        ("plugin", "plugin runs"),
        ("descriptors", "descriptors"),
        ("memory", "memory"),
    ] {
        let (good, text) = soak(&["--seconds", "6", "--sabotage", sabotage]);
        assert!(!good, "{sabotage}: {text}");
        assert!(text.contains(&format!("  BROKEN {promise}")), "{sabotage}: {text}");
    }
}
