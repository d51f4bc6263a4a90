//! The one runner: starts a program, talks with it, and never hangs.

use std::{ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use zeroize::Zeroizing;

/// A program to run, fully decided.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The file to execute: absolute, already resolved and checked.
    pub program: PathBuf,
    /// What the program sees as its own name, and what people call it.
    pub name: OsString,
    /// Arguments after the name.
    pub args: Vec<OsString>,
    /// The whole environment, in order, last duplicate winning.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Where its complaints go.
    pub stderr: Stderr,
    /// How long it may take.
    pub budget: Duration,
    /// How much it may print.
    pub limits: Limits,
    /// A person started it and a terminal is there: it stays in our process group.
    pub attended: bool,
    /// What happens when nobody waits any more.
    pub abandoned: Abandoned,
}

/// What the program reads. Illegal mixes cannot be written.
#[derive(Debug, Clone)]
pub enum Stdin {
    /// The null device.
    Closed,
    /// These bytes, then end of file.
    Request(Zeroizing<Vec<u8>>),
    /// Our own stdin.
    Terminal,
}

/// Where the program's stderr goes.
#[derive(Clone)]
pub enum Stderr {
    /// Kept (the last of it) for the error.
    Kept,
    /// Straight to our own stderr.
    Shown,
    /// Line by line to a program with a screen of its own.
    Sink(Arc<dyn Sink>),
}

/// Receives a plugin's stderr lines as they come, cleaned, for a TUI or GUI to show.
pub trait Sink: Send + Sync + 'static {
    /// One line, without its line break.
    fn line(&self, plugin: &str, line: &str);
}

/// Caps on output.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of stdout; more is an error.
    pub stdout: usize,
    /// Bytes of stderr kept; more is dropped from the front.
    pub stderr: usize,
}

/// What happens to a run that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandoned {
    /// It finishes: the next caller has use for it.
    Finish,
    /// It is ended.
    Kill,
}

/// A program that ended by itself.
pub struct Output {
    /// Exit code, or the signal that ended it.
    pub status: Status,
    /// All of stdout.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last of stderr, raw, when kept.
    pub stderr: Zeroizing<Vec<u8>>,
    /// From start to exit.
    pub took: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Why a program did not end by itself, or never started.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The file is not there (or vanished since it was resolved).
    NotFound,
    /// It could not be started: permission, format, interpreter.
    Start(std::io::Error),
    /// One string of the environment or the arguments is larger than the system takes.
    TooBig {
        /// Which one.
        what: String,
        /// Its size in bytes.
        size: usize,
        /// The system's limit.
        limit: usize,
    },
    /// The time budget was used up; the program was killed.
    TimedOut,
    /// It printed more than the limit; it was killed.
    TooMuchOutput,
    /// Nobody waited any more; it was killed.
    Stopped,
    /// The system failed us (pipes, threads).
    System(std::io::Error),
}

/// Ends a run from outside; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Stop;

/// Runs the program and returns when it has ended, its budget is used up, or `stop` was called.
/// Blocks: it is meant for a thread that Keyward keeps ([`spawn`]).
pub fn run(_invocation: &Invocation, _stop: &Stop) -> Result<Output, Failure> {
    todo!()
}

/// Runs a job on a kept thread.
pub fn spawn(_job: impl FnOnce() + Send + 'static) {
    todo!()
}

impl std::fmt::Debug for Stderr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kept => "Kept",
            Self::Shown => "Shown",
            Self::Sink(_) => "Sink",
        })
    }
}
