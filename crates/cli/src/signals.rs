//! Handles Ctrl-C and other signals while a plugin runs: restores the terminal, stops the plugins, then exits.

#[cfg(unix)]
pub(crate) use keyward_process::signals::{before_leaving, leave_if_interrupted, watch};

#[cfg(not(unix))]
pub(crate) fn watch() {}

#[cfg(not(unix))]
pub(crate) fn leave_if_interrupted() {}
