//! The judge of what a person sees: the stderr of a plugin under kubectl and under `keyward get`, on a terminal and in a
//! pipe, for plugins that succeed and that fail, in every `interactiveMode`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use keyward_testing::{
    pty::Pty,
    server::{Server, User},
};
use serde_json::json;

use crate::{kubectl::Judge, trial::Row};

const MODES: [&str; 3] = ["Never", "IfAvailable", "Always"];

/// What a plugin writes to stderr, as a shell command, and what of it must be seen.
const WRITINGS: &[(&str, &str, &[&str])] = &[
    ("nothing", ":", &[]),
    ("a line", "echo open the-page >&2", &["open the-page"]),
    ("part of a line", "printf half-a-line >&2", &["half-a-line"]),
    ("two lines", "echo first-line >&2; echo second-line >&2", &["first-line", "second-line"]),
    (
        "a long text",
        "echo long-begins >&2; seq 1 20000 >&2; echo long-ends >&2",
        &["long-begins", "long-ends"],
    ),
    ("a line while it runs", "echo wait-for-it >&2; sleep 0.2", &["wait-for-it"]),
];

/// How a plugin ends, as shell commands.
const ENDS: &[(&str, bool)] = &[("exit 0", true), ("exit 1", false), ("exit 7", false)];

/// What was seen of a run.
#[derive(Debug, PartialEq)]
struct Trace {
    succeeded: bool,
    /// For each text to look for: whether it was shown.
    shown: Vec<bool>,
    runs: usize,
    /// Where it is not mixed with stderr.
    stdout: String,
}

/// Runs both programs on every `stride`th case.
pub(crate) fn run(judge: &Judge, stride: usize) -> Result<Row, String> {
    let server = Server::setup().start().map_err(|e| format!("no server: {e}"))?;
    server.users().token("good", User::new("jane"));
    let mut cases = Vec::new();
    for terminal in [false, true] {
        for mode in MODES {
            for writing in WRITINGS {
                cases.extend(ENDS.iter().map(|end| (terminal, mode, writing, end)));
            }
        }
    }
    let mut row = Row::default();
    for (terminal, mode, (what, script, looked_for), (end, succeeds)) in
        cases.into_iter().step_by(stride)
    {
        let answer = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"good"}}"#;
        let answer = if *succeeds { format!("echo '{answer}'; ") } else { String::new() };
        let script = format!("echo run >>\"$0\"; {script}; {answer}{end}");
        let [theirs, ours] = judge
            .programs()
            .map(|program| trace(program, &server, terminal, mode, &script, looked_for));
        let (theirs, ours) = (theirs?, ours?);
        if theirs.0 == ours.0 {
            row.pass(&[]);
            continue;
        }
        row.failed += 1;
        let place = if terminal { "on a terminal" } else { "in a pipe" };
        println!("\nterminal: {mode}, {place}, a plugin that writes {what} and ends with `{end}`");
        for (program, (trace, errors)) in [("kubectl", &theirs), ("keyward", &ours)] {
            let errors: String = errors.trim().chars().take(400).collect();
            println!("  {program}: {trace:?}\n    {}", errors.replace('\n', "\n    "));
        }
    }
    Ok(row)
}

fn trace(
    program: &Path,
    server: &Server,
    terminal: bool,
    mode: &str,
    script: &str,
    looked_for: &[&str],
) -> Result<(Trace, String), String> {
    let failed = |e: std::io::Error| e.to_string();
    let directory = tempfile::tempdir().map_err(failed)?;
    let runs = directory.path().join("runs");
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": mode,
        "command": "sh",
        "args": ["-c", script, runs],
    } });
    fs::write(directory.path().join("config"), server.kubeconfig(&user)).map_err(failed)?;
    let mut command = Command::new("env");
    command.args(["-i", "HOME=/nonexistent", "PATH=/usr/bin:/bin"]).arg(program);
    command.arg("--kubeconfig").arg(directory.path().join("config"));
    command.args(["get", "--raw", "/version"]);
    let (succeeded, seen, stdout) = if terminal {
        let mut terminal = Pty::spawn(&command).map_err(failed)?;
        let status = terminal.finish();
        (status.success(), terminal.screen(), String::new())
    } else {
        let output = command.stdin(Stdio::null()).output().map_err(failed)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stderr), text(&output.stdout))
    };
    let shown = looked_for.iter().map(|text| seen.contains(text)).collect();
    let runs = fs::read_to_string(runs).unwrap_or_default().lines().count();
    Ok((Trace { succeeded, shown, runs, stdout }, seen))
}
