//! What a program stands in: environment, working directory, terminal. Tests build their own.

use std::{ffi::OsString, path::PathBuf};

/// The surroundings of this process, or made-up ones. Read afresh at each use (EN-01).
#[derive(Debug, Clone)]
pub struct Surroundings(Inner);

#[derive(Debug, Clone)]
enum Inner {
    Process,
    Fixed(Box<Fixed>),
}

/// Made-up surroundings.
#[derive(Debug, Clone, Default)]
pub struct Fixed {
    /// Environment, in order.
    pub vars: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Whether fd 0 is a terminal (IT-07).
    pub stdin_is_terminal: bool,
    /// Whether there is a controlling terminal (`/dev/tty` can be opened).
    pub has_terminal: bool,
}

impl Surroundings {
    /// The real ones.
    pub fn process() -> Self {
        Self(Inner::Process)
    }

    /// Made-up ones.
    pub fn fixed(fixed: Fixed) -> Self {
        Self(Inner::Fixed(Box::new(fixed)))
    }
}
