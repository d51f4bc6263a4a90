//! The one runner: starts a program, exchanges data with it, and never hangs.
//!
//! [`run`] is a blocking loop over everything that can happen to a program, meant for a thread that
//! Keyward keeps ([`spawn`]); it needs no runtime, so that a run outlives the runtime of whoever
//! asked first.
//!
//! - **Attended** runs stay in our process group, so that the person at the terminal can talk to
//!   the program; the terminal's state is saved before and restored after, however the run ends.
//!   One at a time has the terminal; the others wait, and their budgets begin when they start.
//! - **Unattended** runs get a session of their own: there is no terminal to open, and the whole
//!   process group is ended when we give up.
//! - Giving up on a program also ends what it started in other sessions, where Linux can tell: the
//!   children of processes that are still there. One that left its parents behind escapes.
//! - When our own process dies during a run, even by SIGKILL, Linux kills the program.
//! - The end of a run is the *exit* of the program. A process it leaves behind may hold its pipes;
//!   they get a short grace and nothing is killed after a normal exit.
//! - A process is signalled only before it is reaped, so never by a process id that was used again.

mod argument_sizes;
mod buffer;
mod cancel;
mod failure;
mod lines;
mod threads;

#[cfg(unix)]
mod child;
#[cfg(target_os = "linux")]
mod death_signal;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(unix)]
mod io_loop;
#[cfg(unix)]
mod launch;
#[cfg(unix)]
mod resident;
#[cfg(unix)]
mod stderr;
#[cfg(unix)]
mod terminal;

#[cfg(not(unix))]
mod portable;

use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use zeroize::Zeroizing;

use crate::{
    FileId,
    clock::{Clock, SystemClock},
};

#[cfg(unix)]
pub use self::resident::{Resident, stay};
pub use self::{
    cancel::{Cancel, shut_down},
    failure::{Failure, Left, Part},
    threads::spawn,
};

/// A program to run, fully decided.
///
/// Its `Debug` shows neither arguments nor values of the environment.
#[derive(Clone)]
pub struct Invocation {
    /// The file to execute: absolute, already resolved and checked.
    pub program: PathBuf,
    /// The file as it was when it was checked; a run is refused when it has changed since.
    pub file_id: Option<FileId>,
    /// What the program sees as its own name, and what people call it.
    pub name: OsString,
    /// Arguments after the name.
    pub args: Vec<OsString>,
    /// The whole environment, in order, last duplicate winning.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Where its stderr goes.
    pub stderr: Stderr,
    /// How long it may take.
    pub budget: Duration,
    /// How much it may print.
    pub limits: OutputLimits,
    /// A person started it and a terminal is there: it stays in our process group.
    pub attended: bool,
}

impl Invocation {
    /// An unattended run of `program` without arguments, environment or input, for a minute at most.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self {
            name: program.clone().into_os_string(),
            program,
            file_id: None,
            args: Vec::new(),
            env: Vec::new(),
            stdin: Stdin::Closed,
            stderr: Stderr::Kept,
            budget: Duration::from_secs(60),
            limits: OutputLimits::default(),
            attended: false,
        }
    }
}

/// What the program reads. Illegal mixes cannot be written.
#[derive(Clone)]
pub enum Stdin {
    /// The null device.
    Closed,
    /// Sends these bytes, then end of file.
    Request(Zeroizing<Vec<u8>>),
    /// Our own stdin. An unattended run gets the null device instead: it must not read what a
    /// person types for somebody else.
    Terminal,
}

/// Where the program's stderr goes.
#[derive(Clone)]
pub enum Stderr {
    /// Kept (the last of it) for the error.
    Kept,
    /// Straight to our own stderr.
    Shown,
    /// Line by line to a program with a screen of its own; kept as well.
    Sink(Arc<dyn Sink>),
}

/// Receives a plugin's stderr as it comes, cleaned of control characters and of the secrets that the
/// plugin was told, for a TUI or GUI to show.
///
/// It is called by the thread that watches the program, so it has to return soon: a program's time
/// budget is not looked at meanwhile.
pub trait Sink: Send + Sync + 'static {
    /// One line, without its line break.
    fn line(&self, plugin: &str, line: &str);

    /// The beginning of a line after which the program went quiet, such as `Password: `. What
    /// follows on that line comes apart. Shown like a line unless a sink knows better.
    fn prompt(&self, plugin: &str, text: &str) {
        self.line(plugin, text);
    }

    /// The end of a line whose beginning was a prompt: often nothing but the line break. Shown like a
    /// line, unless it is empty or a sink knows better.
    fn rest(&self, plugin: &str, text: &str) {
        if !text.is_empty() {
            self.line(plugin, text);
        }
    }
}

/// Caps on output.
#[derive(Debug, Clone, Copy)]
pub struct OutputLimits {
    /// Bytes of stdout; more is an error.
    pub stdout: usize,
    /// Bytes of stderr kept; more is dropped from the front.
    pub stderr: usize,
}

impl Default for OutputLimits {
    /// 1 MiB of stdout, which is more than a server takes in a request's headers, and the last 64 KiB of
    /// stderr. An answer is parsed after its run, so its size also bounds the time that takes.
    fn default() -> Self {
        Self { stdout: 1 << 20, stderr: 64 << 10 }
    }
}

/// A program that ended by itself.
pub struct Output {
    /// Exit code, or the signal that ended it.
    pub status: Status,
    /// All of stdout.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last of stderr, raw, unless it was shown.
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

impl Status {
    /// Whether it says that all went well.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// Runs the program and returns when it has ended, its budget is used up, or it is cancelled.
/// Blocks: it is meant for a thread that Keyward keeps ([`spawn`]).
///
/// Every descriptor it opens is closed, and the program's own process is reaped, when it returns.
/// Having given up on an unattended program, nothing is left of its process group, nor, on Linux, of its
/// descendants elsewhere, except those whose parent has already exited. What a program that ended by itself
/// has left behind is left alone.
pub fn run(invocation: &Invocation, cancel: &Cancel) -> Result<Output, Failure> {
    argument_sizes::check(invocation)?;
    let listener = cancel.listen().map_err(Failure::System)?;
    if listener.is_cancelled() {
        return Err(Failure::Cancelled(Left::default()));
    }
    #[cfg(unix)]
    {
        let _terminal = terminal::take(invocation.attended, &listener)?;
        let started = SystemClock.elapsed();
        let (child, pipes) = launch::launch(invocation, &listener)?;
        io_loop::run(invocation, child, pipes, started, &listener)
    }
    #[cfg(not(unix))]
    portable::run(invocation, &listener)
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<_> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Invocation")
            .field("program", &self.program)
            .field("name", &self.name)
            .field("args", &self.args.len())
            .field("env", &env)
            .field("stdin", &self.stdin)
            .field("stderr", &self.stderr)
            .field("budget", &self.budget)
            .field("limits", &self.limits)
            .field("attended", &self.attended)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("Closed"),
            Self::Request(bytes) => write!(f, "Request({} bytes)", bytes.len()),
            Self::Terminal => f.write_str("Terminal"),
        }
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "Kept",
            Self::Shown => "Shown",
            Self::Sink(_) => "Sink",
        })
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("status", &self.status)
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .field("took", &self.took)
            .finish()
    }
}
