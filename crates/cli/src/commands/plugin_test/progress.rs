//! Shows the current question, because an examination takes a while.

use std::io::{self, IsTerminal as _};

use crate::output;

/// One line on the terminal that is overwritten. Prints nothing if stderr is not a terminal.
pub(super) struct Progress {
    shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub(super) fn say(&self, what: &str) {
        if self.shown {
            output::tell(&format!("\r\x1b[Ktesting: {}", output::inline(what)));
        }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        if self.shown {
            output::tell("\r\x1b[K");
        }
    }
}
