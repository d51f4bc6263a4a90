use std::{error::Error, fmt, io, time::Duration};

use zeroize::Zeroizing;

use keyward_protocol::text::inline;

/// Why a program did not end by itself, or never started.
///
/// Its text says only what happened, not to which program: the caller knows what people call it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The file is not there (or vanished since it was resolved).
    NotFound,
    /// The file is not the one that was checked any more.
    Changed,
    /// The path is a directory.
    Directory,
    /// The system does not let us execute it: no permission, or a file system mounted `noexec`.
    Denied,
    /// The file is neither a program for this machine nor a script with a `#!` line.
    Format,
    /// The file is there, but not the interpreter of its `#!` line, or its loader.
    Interpreter(Option<String>),
    /// Somebody has the file open for writing, for longer than it takes to install it.
    Busy,
    /// A string for the program contains a NUL byte, which no program can be given.
    Nul(Part),
    /// A string for the program is larger than the system takes, or all of them together are.
    TooBig {
        /// The string that is too large.
        part: Part,
        /// The string's size in bytes.
        size: usize,
        /// The system's limit.
        limit: usize,
    },
    /// The program could not be started for another reason.
    Start(io::Error),
    /// The time budget was used up; the program was killed.
    TimedOut(Left),
    /// The program printed more than the limit and was killed.
    TooMuchOutput(Left),
    /// The program ended, or answered out of turn, while it was asked line by line.
    Gone(Left),
    /// The run was cancelled; the program was killed.
    Cancelled(Left),
    /// The system failed us (pipes, threads).
    System(io::Error),
}

/// What a program that was killed left behind.
#[derive(Default)]
#[non_exhaustive]
pub struct Left {
    /// The program's stdout up to the limit, raw: a token that was printed there may be in stderr too.
    pub stdout: Zeroizing<Vec<u8>>,
    /// The last of its stderr, raw, unless it was shown.
    pub stderr: Zeroizing<Vec<u8>>,
    /// From its start to the decision to kill it.
    pub took: Duration,
}

/// Why a program is not listened to any longer.
#[cfg(unix)]
pub(super) enum End {
    /// The program was given up on; makes the failure from what it left behind.
    GaveUp(fn(Left) -> Failure),
    /// The system failed.
    System(io::Error),
}

/// What a program is given as text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The path of the file.
    Program,
    /// An argument; the first one after the name is 1, the name itself 0.
    Argument(usize),
    /// The environment variable of this name.
    Variable(String),
    /// All arguments and variables together.
    Everything,
}

impl Failure {
    /// What the program left behind, if it was started and killed.
    pub fn left(&self) -> Option<&Left> {
        match self {
            Self::TimedOut(left)
            | Self::TooMuchOutput(left)
            | Self::Gone(left)
            | Self::Cancelled(left) => Some(left),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("there is no such file"),
            Self::Changed => f.write_str("the file has changed since it was checked"),
            Self::Directory => f.write_str("it is a directory"),
            Self::Denied => f.write_str("the system does not allow it to be executed"),
            Self::Format => f.write_str(
                "it is neither a program for this machine nor a script that begins with `#!`",
            ),
            Self::Interpreter(Some(name)) => {
                write!(f, "its interpreter `{}` was not found", inline(name))
            }
            Self::Interpreter(None) => f.write_str("its interpreter or loader was not found"),
            Self::Busy => f.write_str("the file is being written to"),
            Self::Nul(part) => write!(f, "{part} contains a NUL byte"),
            Self::TooBig { part, size, limit } => {
                write!(f, "{part} would be {size} bytes, but the system takes at most {limit}")
            }
            Self::Start(_) => f.write_str("it could not be started"),
            Self::TimedOut(left) => write!(
                f,
                "it did not end within {:?} and was killed",
                Duration::from_millis(u64::try_from(left.took.as_millis()).unwrap_or(u64::MAX))
            ),
            Self::TooMuchOutput(_) => f.write_str("it printed more than allowed and was killed"),
            Self::Gone(_) => f.write_str("it ended in the middle of the exchange"),
            Self::Cancelled(_) => f.write_str("it was killed because the request was cancelled"),
            Self::System(_) => f.write_str("the system could not run it"),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Start(error) | Self::System(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => f.write_str("the path of the program"),
            Self::Argument(0) => f.write_str("the name of the program"),
            Self::Argument(number) => write!(f, "argument {number}"),
            Self::Variable(name) => {
                write!(f, "the environment variable `{}`", inline(name))
            }
            Self::Everything => f.write_str("all arguments and environment variables together"),
        }
    }
}

impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Left")
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .field("took", &self.took)
            .finish()
    }
}
