//! `cargo xtask conformance`: builds the harness and the program, and compares them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use keyward_testing::kubectl::VARIABLE;

use crate::{kubectl, sh};

/// Runs it; `args` go to it. With `--mutations` it is run on code with a mistake in it and must fail.
pub fn run(args: &[String]) -> Result<bool, String> {
    if args.iter().any(|arg| arg == "--mutations") {
        return mutations();
    }
    let packages = ["--package", "keyward-cli", "--package", "keyward-conformance"];
    let run = ["run", "--quiet", "--package", "keyward-conformance", "--"];
    let mut harness = sh::cargo();
    harness.args(run).args(args);
    if let Some(kubectl) = kubectl::choose(keyward_conformance::kubectl::OLDEST)? {
        harness.env(VARIABLE, kubectl);
    }
    Ok(sh::run(sh::cargo().args(["build", "--quiet", "--bins"]).args(packages))?
        && sh::run(&mut harness)?)
}

/// A rule of ours, broken.
struct Mutation {
    rule: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    area: &'static str,
}

const MUTATIONS: &[Mutation] = &[
    Mutation {
        rule: "unused bits at the end of Base64 are ignored",
        file: "crates/protocol/src/text.rs",
        from: "with_decode_allow_trailing_bits(true)",
        to: "with_decode_allow_trailing_bits(false)",
        area: "exec-info-helper",
    },
    Mutation {
        rule: "a key of the keyring that is a host and `/` is the host",
        file: "crates/image/src/keyring.rs",
        from: "if path != b\"/\" {",
        to: "if !path.is_empty() {",
        area: "keyring",
    },
    Mutation {
        rule: "a proxy's scheme is http, https or socks5",
        file: "crates/host/src/kubeconfig/server.rs",
        from: "\"http\" | \"https\" | \"socks5\" =>",
        to: "\"http\" | \"https\" | \"socks5\" | \"ftp\" =>",
        area: "kubeconfig",
    },
];

/// Breaks one rule after the other in a copy of the tree; whether each was noticed. What is not broken must
/// pass first, so that a failure is the mutation's and nobody else's.
fn mutations() -> Result<bool, String> {
    let copy = crate::root().join("target/conformance/mutant");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy).map_err(|e| format!("cannot make `{}`: {e}", copy.display()))?;
    let mut tar = Command::new("sh");
    tar.args(["-c", "git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C \"$0\""]);
    if !sh::run(tar.arg(&copy).current_dir(crate::root()))? {
        return Err("the tree could not be copied".to_owned());
    }
    for mutation in MUTATIONS {
        match trial(&copy, mutation.area)? {
            Outcome::Passed => println!("unbroken, {}: passed", mutation.area),
            Outcome::Differed => {
                return Err(format!("{} fails without a mutation too", mutation.area));
            }
        }
    }
    let mut unnoticed = 0;
    for mutation in MUTATIONS {
        let path = copy.join(mutation.file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", mutation.file))?;
        if text.matches(mutation.from).count() != 1 {
            return Err(format!("`{}` does not stand once in {}", mutation.from, mutation.file));
        }
        let write = |text: &str| fs::write(&path, text).map_err(|e| e.to_string());
        write(&text.replace(mutation.from, mutation.to))?;
        let outcome = trial(&copy, mutation.area);
        write(&text)?;
        let noticed = outcome.map_err(|e| format!("{}: {e}", mutation.rule))? == Outcome::Differed;
        println!("{}: {}", mutation.rule, if noticed { "noticed" } else { "NOT noticed" });
        unnoticed += usize::from(!noticed);
    }
    println!("{} of {} mutations noticed", MUTATIONS.len() - unnoticed, MUTATIONS.len());
    Ok(unnoticed == 0)
}

/// What the harness found.
#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Differed,
}

impl Outcome {
    /// By the number it ended with and its last count; `Err` when it did not get as far as to judge.
    fn read(code: Option<i32>, said: &str) -> Result<Self, String> {
        let count = |line: &str| {
            let (passed, failed) = line.strip_suffix(" failed")?.split_once(" passed, ")?;
            Some((passed.parse::<usize>().ok()?, failed.parse::<usize>().ok()?))
        };
        let counted = said.lines().rev().find_map(count);
        match (code, counted) {
            (Some(0), Some((1.., 0))) => Ok(Self::Passed),
            (Some(1), Some((_, 1..))) => Ok(Self::Differed),
            _ => {
                let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                let counted = counted.map_or("no count".to_owned(), |(passed, failed)| {
                    format!("{passed} passed, {failed} failed")
                });
                Err(format!("the harness did not judge: it ended with {code} and {counted}"))
            }
        }
    }
}

/// Builds the copy and runs its harness on one area. Built apart: cargo would take a crate of the copy for
/// the one of the tree afterwards.
fn trial(copy: &Path, area: &str) -> Result<Outcome, String> {
    let target = crate::root().join("target/conformance/built");
    let cargo = |command: &str| {
        let mut cargo = sh::cargo();
        cargo.current_dir(copy).env("CARGO_TARGET_DIR", &target);
        cargo.args([command, "--quiet", "--package", "keyward-conformance"]);
        cargo
    };
    // What does not compile was not noticed by the harness.
    if !sh::run(&mut cargo("build"))? {
        return Err("the copy does not compile".to_owned());
    }
    let mut run = cargo("run");
    run.args(["--", "--cases", "4000", "--area", area]).stderr(Stdio::inherit());
    let output = run.output().map_err(|e| format!("cannot start cargo: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    Outcome::read(output.status.code(), &said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_that_were_counted_are_noticed() {
        let differed =
            Outcome::read(Some(1), "keyring …\n3991 passed, 9 failed\nconformance: ran\n");
        assert_eq!(differed, Ok(Outcome::Differed));
        let passed = Outcome::read(Some(0), "4000 passed, 0 failed\nconformance: ran\n");
        assert_eq!(passed, Ok(Outcome::Passed));
    }

    #[test]
    fn a_harness_that_did_not_judge_is_an_error_and_not_a_notice() {
        // No Go, a short area, a crash, a signal, a run that was let off, one that judged nothing.
        let odd = [
            (Some(2), ""),
            (Some(2), "3000 passed, 0 failed\n"),
            (Some(101), ""),
            (None, "0 passed, 7 failed\n"),
            (Some(0), "conformance: did not run: no `go`\n"),
            (Some(0), "0 passed, 0 failed\n"),
            (Some(1), "4000 passed, 0 failed\n"),
            (Some(0), "3999 passed, 1 failed\n"),
        ];
        for (code, said) in odd {
            assert!(Outcome::read(code, said).is_err(), "{code:?} {said:?}");
        }
    }
}
