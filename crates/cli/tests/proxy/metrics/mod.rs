//! Metrics, and what Prometheus makes of them.

mod alerts;
mod cases;
mod page;
mod prometheus;

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

/// A process that ends with this value.
struct Running(Child);

impl Running {
    /// Starts a program and returns what follows `mark` in what it says first.
    fn start(command: &mut Command, mark: &str) -> (Self, String) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let running = Self(child);
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let rest = line.strip_prefix(mark).unwrap_or_else(|| panic!("{mark} is not in {line}"));
        (running, rest.trim_end().to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `curl` prints; `None` if it fails, as it does for error codes.
fn curl(words: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-fsS", "--max-time", "20"]).args(words).output();
    let output = output.expect("curl (Debian package `curl`)");
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

/// `promtool` has nothing to say about this input.
#[track_caller]
fn assert_promtool(words: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool (Debian package `prometheus`)");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}\n{input}");
}

/// A file of this repository.
fn repository(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::fs::read_to_string(format!("{root}/{path}")).unwrap()
}
