//! The reference on the clock: client-go and the kubelet's code, measured inside a program of theirs.
//!
//! `cargo xtask bench` builds that program (`conformance/go/pace`) where Go is at hand and puts it beside
//! us. It takes jobs line by line, so that its own start is in no figure.

use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::rows;

/// What the reference needs for a job, in the job's unit of nanoseconds.
pub fn nanos(job: &Value) -> Result<f64, String> {
    figure(job, "nanos")
}

/// One of the figures of a job.
pub fn figure(job: &Value, name: &str) -> Result<f64, String> {
    thread_local! {
        static PEER: RefCell<Option<Result<Peer, String>>> = const { RefCell::new(None) };
    }
    PEER.with_borrow_mut(|peer| {
        let peer = peer.get_or_insert_with(Peer::start);
        peer.as_mut().map_err(|e| e.clone())?.figure(job, name)
    })
}

/// Who is measured beside us, in which version, for the page.
pub fn versions() -> String {
    let said = |command: &mut Command| {
        let output = command.stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().next().map(str::to_owned)
    };
    let kubectl = said(Command::new(rows::kubectl()).args(["version", "--client"]));
    let curl = said(Command::new("curl").arg("--version"));
    let curl = curl.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
    let go = Peer::start().and_then(|mut peer| peer.ask(&json!({ "work": "versions" })));
    let go = go.ok().and_then(|told| told["text"].as_str().map(str::to_owned));
    let kubectl = kubectl.map(|line| line.replace("Client Version:", "kubectl"));
    [kubectl, curl, go].map(|known| known.unwrap_or_else(|| "one missing".to_owned())).join(", ")
}

/// The program. One of its own is for whoever gives it other surroundings than the rest have.
pub struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it where this thread may run.
    pub fn start() -> Result<Self, String> {
        let program = std::env::current_exe().unwrap_or_default().with_file_name("keyward-pace");
        let missing = |e| format!("needs a current Go to be built ({e})");
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(missing)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let stdout = BufReader::new(stdout.ok_or("the reference has no stdout")?);
        Ok(Self { child, stdin, stdout })
    }

    pub fn figure(&mut self, job: &Value, name: &str) -> Result<f64, String> {
        let figures = self.ask(job)?;
        figures[name].as_f64().ok_or_else(|| format!("the reference did not measure `{name}`"))
    }

    fn ask(&mut self, job: &Value) -> Result<Value, String> {
        let gone = |e: std::io::Error| format!("the reference is gone: {e}");
        let stdin = self.stdin.as_mut().ok_or("the reference has no stdin")?;
        writeln!(stdin, "{job}").map_err(gone)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line).map_err(gone)?;
        let figures: Value =
            serde_json::from_str(&line).map_err(|e| format!("the reference said nothing: {e}"))?;
        match figures["error"].as_str() {
            Some(error) => Err(format!("the reference failed: {error}")),
            None => Ok(figures),
        }
    }
}

impl Drop for Peer {
    /// Closes the peer's stdin, which ends it.
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}
