//! Keeps stdout clean, so that it contains the answer and nothing else.

use std::{fs::File, io, io::Write};

use crate::Refusal;

/// The real stdout, moved aside. What the process and its children print meanwhile goes to stderr.
pub(crate) struct Stdout(File);

impl Stdout {
    /// Moves stdout aside. From here on file descriptor 1 is a second stderr.
    pub(crate) fn take() -> Result<Self, Refusal> {
        aside()
            .map(Self)
            .map_err(|e| Refusal::Failed(format!("cannot move stdout out of the way: {e}")))
    }

    /// Prints an answer.
    pub(crate) fn print(&mut self, answer: &str) -> Result<(), Refusal> {
        let printed = self.0.write_all(answer.as_bytes()).and_then(|()| self.0.flush());
        printed.map_err(|e| Refusal::Failed(format!("cannot print the answer: {e}")))
    }
}

#[cfg(unix)]
fn aside() -> io::Result<File> {
    use rustix::{io::fcntl_dupfd_cloexec, stdio};

    // Close-on-exec, so that a child cannot reach it and cannot hold it open.
    let real = fcntl_dupfd_cloexec(stdio::stdout(), 3)?;
    stdio::dup2_stdout(stdio::stderr())?;
    Ok(File::from(real))
}

/// Duplicates stdout. This system has no safe call to redirect it, so the plugin has to keep it
/// clean.
#[cfg(not(unix))]
fn aside() -> io::Result<File> {
    use std::os::windows::io::AsHandle;

    let real = io::stdout().as_handle().try_clone_to_owned()?;
    Ok(File::from(real))
}
