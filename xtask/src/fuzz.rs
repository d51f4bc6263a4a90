//! `cargo xtask fuzz`: the readers of what strangers write; `cargo xtask fuzz-proxy`: the long version
//! of a test, optimised.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::sh;

const USAGE: &str = "usage: cargo xtask fuzz [TARGET…] [--seconds N | --runs N]";

/// What one run of a target came to.
struct Outcome {
    target: String,
    executions: u64,
    ok: bool,
}

/// A minute of every target, or of those that are named; or `--seconds N`, or `--runs N` of each.
pub fn readers(args: &[String]) -> Result<bool, String> {
    let all = targets()?;
    let (mut chosen, mut limit) = (Vec::new(), "-max_total_time=60".to_owned());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || {
            let number = args.next().and_then(|text| text.parse::<u64>().ok());
            number.ok_or_else(|| USAGE.to_owned())
        };
        match arg.as_str() {
            "--seconds" => limit = format!("-max_total_time={}", number()?),
            "--runs" => limit = format!("-runs={}", number()?),
            name if all.iter().any(|target| target == name) => chosen.push(name.to_owned()),
            _ => return Err(format!("{USAGE}\ntargets: {}", all.join(" "))),
        }
    }
    let helped = sh::cargo().args(["fuzz", "--version"]).output();
    if !helped.is_ok_and(|output| output.status.success()) {
        return Err("there is no `cargo fuzz`: cargo install cargo-fuzz; it needs a nightly \
                    compiler too: rustup toolchain install nightly"
            .to_owned());
    }
    let chosen = if chosen.is_empty() { all } else { chosen };
    let mut outcomes = Vec::new();
    for target in chosen {
        outcomes.push(run(target, &limit)?);
    }
    for Outcome { target, executions, ok } in &outcomes {
        println!("{target:16} {executions:>12} executions{}", if *ok { "" } else { ", failed" });
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.ok).count();
    let executions: u64 = outcomes.iter().map(|outcome| outcome.executions).sum();
    println!("{executions} executions of {} targets, {failed} failed", outcomes.len());
    Ok(failed == 0)
}

/// The names of all targets, which are those of their files.
fn targets() -> Result<Vec<String>, String> {
    let directory = crate::root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&directory).map_err(|error| format!("no targets: {error}"))?;
    let name = |path: PathBuf| Some(path.file_stem()?.to_str()?.to_owned());
    let mut names: Vec<String> = entries.filter_map(|entry| name(entry.ok()?.path())).collect();
    names.sort();
    Ok(names)
}

/// One target. What it finds goes to `fuzz/found`, which is not kept; `fuzz/corpus` is.
fn run(target: String, limit: &str) -> Result<Outcome, String> {
    let found = crate::root().join("fuzz/found").join(&target);
    fs::create_dir_all(&found).map_err(|error| format!("cannot make `fuzz/found`: {error}"))?;
    // Not by the cargo that runs us, which is not the nightly one.
    let mut command = Command::new("rustup");
    command
        .current_dir(crate::root())
        // Looking for leaks at the end needs ptrace, which containers forbid.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .args(["run", "nightly", "cargo", "fuzz", "run", &target])
        .args([format!("fuzz/found/{target}"), format!("fuzz/corpus/{target}")])
        .args(["--", "-timeout=20", "-max_len=4096", "-print_final_stats=1", limit])
        .arg("-dict=fuzz/words.dict")
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start `rustup`: {error}"))?;
    let stderr = child.stderr.take().ok_or("the fuzzer has no stderr")?;
    let mut executions = 0;
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = count.trim().parse().unwrap_or(0);
        }
        eprintln!("{line}");
    }
    let status = child.wait().map_err(|error| format!("cannot wait for the fuzzer: {error}"))?;
    Ok(Outcome { target, executions, ok: status.success() })
}

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
