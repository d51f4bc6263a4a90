//! Shows what a long command is doing, so that nobody takes it for one that hangs.

use std::io::{self, IsTerminal as _};

use crate::output;

/// One line on the terminal that is overwritten. Prints nothing if stderr is not a terminal.
pub(crate) struct Progress {
    label: &'static str,
    shown: bool,
}

impl Progress {
    /// Progress of what the label says, such as `testing`.
    pub(crate) fn new(label: &'static str) -> Self {
        Self { label, shown: io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub(crate) fn say(&self, what: &str) {
        if self.shown {
            output::tell(&format!("\r\x1b[K{}: {}", self.label, output::inline(what)));
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.shown {
            output::tell("\r\x1b[K");
        }
    }
}
