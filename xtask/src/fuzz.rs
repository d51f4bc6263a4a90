//! `cargo xtask fuzz`: the readers of what strangers write; `cargo xtask fuzz-proxy`: the long version
//! of a test, optimised.

use std::fs;

use serde_json::{Value, json};

use crate::sh;

/// The targets, and the vectors whose texts they begin with.
const TARGETS: [(&str, &str); 3] =
    [("kubeconfig", "kubeconfig"), ("exec_answer", "exec-output"), ("policy", "plugin-policy")];

/// Ten minutes, or `--seconds N`, of one target.
pub fn readers(args: &[String]) -> Result<bool, String> {
    const USAGE: &str = "usage: cargo xtask fuzz kubeconfig|exec_answer|policy [--seconds N]";
    let (target, seconds) = match args {
        [target] => (target, "600"),
        [target, flag, seconds] if flag == "--seconds" => (target, seconds.as_str()),
        _ => return Err(USAGE.to_owned()),
    };
    let (target, vectors) =
        TARGETS.into_iter().find(|(name, _)| name == target).ok_or_else(|| USAGE.to_owned())?;
    let helped = sh::cargo().args(["fuzz", "--version"]).output();
    if !helped.is_ok_and(|output| output.status.success()) {
        return Err("there is no `cargo fuzz`: cargo install cargo-fuzz; it needs a nightly \
                    compiler too: rustup toolchain install nightly"
            .to_owned());
    }
    seed(target, vectors)?;
    // Not by the cargo that runs us, which is not the nightly one.
    let mut command = std::process::Command::new("rustup");
    command
        .current_dir(crate::root())
        // Looking for leaks at the end needs ptrace, which containers forbid.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .args(["run", "nightly", "cargo", "fuzz", "run", target, "--"]);
    sh::run(command.arg(format!("-max_total_time={seconds}")).arg("-timeout=20"))
}

/// Texts to begin with: without them a fuzzer spends its minutes on finding the first brace.
fn seed(target: &str, vectors: &str) -> Result<(), String> {
    let bad = |error: &dyn std::fmt::Display| format!("no texts to begin with: {error}");
    let cases = crate::root().join("vectors").join(vectors).with_extension("json");
    let cases = fs::read(cases).map_err(|e| bad(&e))?;
    let cases: Vec<Value> = serde_json::from_slice(&cases).map_err(|e| bad(&e))?;
    let folder = crate::root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder).map_err(|e| bad(&e))?;
    let texts = cases.iter().flat_map(|case| match target {
        "exec_answer" => vec![case["stdout"].as_str().unwrap_or_default().to_owned()],
        "kubeconfig" => case["files"]
            .as_object()
            .map(|files| files.values().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default(),
        _ => vec![policy(case)],
    });
    for (number, text) in texts.enumerate() {
        fs::write(folder.join(format!("vector-{number}")), text).map_err(|e| bad(&e))?;
    }
    Ok(())
}

/// The case's policy as a kuberc says it.
fn policy(case: &Value) -> String {
    let list = case["allowlist"].as_array().into_iter().flatten();
    let list: Vec<Value> = list.map(|command| json!({ "command": command })).collect();
    let file = json!({
        "apiVersion": "kubectl.config.k8s.io/v1beta1",
        "kind": "Preference",
        "credentialPluginPolicy": case["policy"],
        "credentialPluginAllowlist": list,
    });
    format!("{file:#}")
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
