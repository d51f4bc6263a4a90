//! `cargo xtask conformance`: builds the harness and the program, and runs the one beside the other.

use std::fs;

use crate::sh;

/// Runs it; `args` go to it. With `--mutations` it is run on code with a mistake in it and must fail.
pub fn run(args: &[String]) -> Result<bool, String> {
    if args.iter().any(|arg| arg == "--mutations") {
        return mutations();
    }
    let packages = ["--package", "keyward-cli", "--package", "keyward-conformance"];
    let run = ["run", "--quiet", "--package", "keyward-conformance", "--"];
    Ok(sh::run(sh::cargo().args(["build", "--quiet", "--bins"]).args(packages))?
        && sh::run(sh::cargo().args(run).args(args))?)
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
        file: "crates/host/src/image/keyring.rs",
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

/// Breaks one rule after the other in a copy of the tree; whether each was noticed.
fn mutations() -> Result<bool, String> {
    let copy = crate::root().join("target/conformance/mutant");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir_all(&copy).map_err(|e| format!("cannot make `{}`: {e}", copy.display()))?;
    let mut tar = std::process::Command::new("sh");
    tar.args(["-c", "git ls-files -z | tar --null --files-from=- -cf - | tar -xf - -C \"$0\""]);
    if !sh::run(tar.arg(&copy).current_dir(crate::root()))? {
        return Err("the tree could not be copied".to_owned());
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
        let args = ["--cases", "4000", "--area", mutation.area].map(str::to_owned);
        // What does not compile was not noticed by the harness. Built apart: cargo would take a crate
        // of the copy for the one of the tree afterwards.
        let target = crate::root().join("target/conformance/built");
        let cargo = |command: &str| {
            let mut cargo = sh::cargo();
            cargo.current_dir(&copy).env("CARGO_TARGET_DIR", &target);
            cargo.args([command, "--quiet", "--package", "keyward-conformance"]);
            cargo
        };
        let noticed =
            sh::run(&mut cargo("build"))? && !sh::run(cargo("run").arg("--").args(&args))?;
        write(&text)?;
        println!("{}: {}", mutation.rule, if noticed { "noticed" } else { "NOT noticed" });
        unnoticed += usize::from(!noticed);
    }
    println!("{} of {} mutations noticed", MUTATIONS.len() - unnoticed, MUTATIONS.len());
    Ok(unnoticed == 0)
}
