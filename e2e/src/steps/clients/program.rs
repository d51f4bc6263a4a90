//! The client programs: how each is started, and what it reports while it works.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    Outcome,
    cluster::Cluster,
    tools::{self, Tools},
};

/// A program in `clients/`, written with one client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    PythonThreads,
    PythonTasks,
    Node,
    JavaOfficial,
    JavaFabric8,
    Ruby,
}

/// All of them.
pub const ALL: [Program; 6] = [
    Program::PythonThreads,
    Program::PythonTasks,
    Program::Node,
    Program::JavaOfficial,
    Program::JavaFabric8,
    Program::Ruby,
];

impl Program {
    /// The program's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::PythonThreads => "python",
            Self::PythonTasks => "python asyncio",
            Self::Node => "node",
            Self::JavaOfficial => "java",
            Self::JavaFabric8 => "fabric8",
            Self::Ruby => "ruby",
        }
    }

    /// Whether its library can run a command in a pod.
    pub fn has_exec(self) -> bool {
        self != Self::Ruby
    }

    /// The program in this mode: `work` with a label selector, or `exec` with a pod.
    pub fn command(
        self,
        cluster: &Cluster,
        mode: &str,
        kubeconfig: &Path,
        namespace: &str,
        word: &str,
    ) -> Command {
        let tools = &cluster.tools;
        let script = |name: &str| Tools::file(&format!("clients/{name}"));
        let (program, first): (PathBuf, Vec<PathBuf>) = match self {
            Self::PythonThreads => (tools.python(), vec![script("python/threads.py")]),
            Self::PythonTasks => (tools.python(), vec![script("python/tasks.py")]),
            Self::Node => ("node".into(), vec![tools.client_script("client.mjs")]),
            Self::JavaOfficial | Self::JavaFabric8 => {
                let class = if self == Self::JavaOfficial { "Official" } else { "Fabric8" };
                // Threads and heap for a small program: several of these run at once on two cores.
                let flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp"];
                let mut first: Vec<PathBuf> = flags.iter().map(PathBuf::from).collect();
                first.push(tools.java());
                first.push(format!("keyward.e2e.{class}").into());
                ("java".into(), first)
            }
            Self::Ruby => ("ruby".into(), vec![script("ruby/client.rb")]),
        };
        let mut command = tools::command(program, &cluster.path("."));
        command.args(first).arg(mode).arg(kubeconfig).args(["e2e", namespace, word]);
        command
    }
}

/// A client that watches, started and not yet ended.
pub struct Running {
    name: String,
    child: Child,
    /// Closed to end it.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// `TYPE NAME` of each event, in the order of arrival.
    events: Vec<String>,
    /// How many reads succeeded beside the watch; told at the end.
    reads: usize,
}

impl Running {
    /// Starts `command`, whose lines have the form of `clients/README.md`.
    pub fn start(name: &str, command: &mut Command) -> Outcome<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start {name}: {e}"))?;
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        Ok(Self { name: name.to_owned(), child, stdin, lines, events: Vec::new(), reads: 0 })
    }

    /// Returns when it follows the changes, which this line tells.
    pub async fn ready(&mut self, expected: &str) -> Outcome<()> {
        let line = self.line().await?;
        if line.as_deref() == Some(expected) {
            return Ok(());
        }
        let why = self.complaint().await;
        Err(format!("{} is not ready: {line:?}{why}", self.name).into())
    }

    /// Takes events until there are as many as expected, ends the client, and compares. How many reads it
    /// made.
    pub async fn finish(mut self, expected: &[String]) -> Outcome<usize> {
        while self.events.len() < expected.len() {
            let Some(line) = self.line().await? else {
                let (seen, why) = (self.events.len(), self.complaint().await);
                return Err(format!("{} ended after {seen} events{why}", self.name).into());
            };
            self.take(&line)?;
        }
        drop(self.stdin.take());
        while let Some(line) = self.line().await? {
            self.take(&line)?;
        }
        if let Some(at) = (0..expected.len()).find(|at| self.events.get(*at) != expected.get(*at)) {
            let seen = &self.events[at];
            return Err(format!("{}: event {at} is {seen}, not {}", self.name, expected[at]).into());
        }
        if self.events.len() > expected.len() {
            return Err(format!("{}: {} came twice", self.name, self.events[expected.len()]).into());
        }
        let status = self.child.wait().await?;
        if !status.success() {
            let why = self.complaint().await;
            return Err(format!("{}: {status}{why}", self.name).into());
        }
        Ok(self.reads)
    }

    fn take(&mut self, line: &str) -> Outcome<()> {
        match line.split_once(' ') {
            Some(("event", event)) => self.events.push(event.to_owned()),
            Some(("reads", number)) => self.reads = number.parse()?,
            _ => return Err(format!("{}: {line}", self.name).into()),
        }
        Ok(())
    }

    async fn line(&mut self) -> Outcome<Option<String>> {
        Ok(self.lines.next_line().await?)
    }

    /// What it wrote to stderr, for a client that has ended.
    async fn complaint(&mut self) -> String {
        let Some(stderr) = self.child.stderr.take() else { return String::new() };
        let _ = self.child.start_kill();
        let mut text = String::new();
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            text.push_str("\n    ");
            text.push_str(&line);
        }
        text
    }
}
