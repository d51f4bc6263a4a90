//! The Go TLS server: it takes what Go takes, which is what an API server takes.

use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::{obstacle::Obstacle, reference};

/// The running program; it ends when this is dropped.
pub(super) struct Server(RefCell<Pipes>);

struct Pipes {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    pub(super) fn start(root: &Path) -> Result<Self, Obstacle> {
        let program = reference::build(root, &reference::target(root), "./tlsserver", "tlsserver")?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start `{}`: {e}", program.display()))?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().ok_or("no stdout".to_owned())?);
        Ok(Self(RefCell::new(Pipes { child, stdin, stdout })))
    }

    /// Opens a listener; its port.
    pub(super) fn listen(&self, order: &Value) -> Result<u64, String> {
        let answer = self.ask(order)?;
        answer["port"].as_u64().ok_or_else(|| format!("the server cannot listen: {answer}"))
    }

    /// The requests since the last call.
    pub(super) fn seen(&self) -> Result<Vec<Value>, String> {
        let mut answer = self.ask(&json!({}))?;
        match answer["seen"].take() {
            Value::Array(seen) => Ok(seen),
            other => Err(format!("the server did not say what it saw: {other}")),
        }
    }

    fn ask(&self, order: &Value) -> Result<Value, String> {
        let mut pipes = self.0.borrow_mut();
        let gone = |e: std::io::Error| format!("the TLS server went away: {e}");
        let stdin = pipes.stdin.as_mut().ok_or("the TLS server was told to end")?;
        writeln!(stdin, "{order}").map_err(gone)?;
        let mut line = String::new();
        pipes.stdout.read_line(&mut line).map_err(gone)?;
        serde_json::from_str(&line).map_err(|e| format!("the TLS server said no JSON: {e}"))
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        // The end of its stdin is its end.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
