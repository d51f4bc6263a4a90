//! Handles Ctrl-C and other signals while a plugin runs: restores the terminal, stops the plugins, then exits.

pub(crate) use keyward_process::signals::{before_leaving, leave_if_interrupted, watch};
