//! Says what is being asked, for a person who looks on: an examination takes its time.

use std::io::{self, IsTerminal as _};

use crate::output;

/// One line on the terminal that is written over again. Nothing where stderr is no terminal.
pub(super) struct Progress {
    shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    /// Shows this in place of what was shown before.
    pub(super) fn say(&self, what: &str) {
        if self.shown {
            output::tell(&format!("\r\x1b[Ktesting: {}", output::inline(what)));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.shown {
            output::tell("\r\x1b[K");
        }
    }
}
