//! Keeps stdout clean: it carries the answer and nothing else.

use std::{fs::File, io, io::Write};

/// The real stdout, moved aside. What the process and its children print meanwhile goes to stderr.
pub(crate) struct Stdout(File);

impl Stdout {
    /// Moves stdout aside. From here on file descriptor 1 is a second stderr.
    #[cfg(unix)]
    pub(crate) fn take() -> io::Result<Self> {
        use rustix::{io::fcntl_dupfd_cloexec, stdio};

        // Close-on-exec, so that a child cannot reach it and cannot hold it open.
        let real = fcntl_dupfd_cloexec(stdio::stdout(), 3)?;
        stdio::dup2_stdout(stdio::stderr())?;
        Ok(Self(File::from(real)))
    }

    /// There is no safe way to move it on this system: keeping it clean is left to the plugin.
    #[cfg(not(unix))]
    pub(crate) fn take() -> io::Result<Self> {
        use std::os::windows::io::AsHandle;

        let real = io::stdout().as_handle().try_clone_to_owned()?;
        Ok(Self(File::from(real)))
    }

    /// Prints an answer.
    pub(crate) fn print(&mut self, answer: &str) -> io::Result<()> {
        self.0.write_all(answer.as_bytes())?;
        self.0.flush()
    }
}
