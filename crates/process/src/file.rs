//! Reads untrusted files: never more than fits, and never forever.
//!
//! A kubeconfig may come from a stranger, and the files it names may be anything: a pipe that nobody
//! writes to, a device that never ends, a directory. [`read`] takes all of them and returns the content
//! or an error within the [`Limits`].
//!
//! ```
//! use keyward_process::file::{self, Limits};
//!
//! # fn main() -> std::io::Result<()> {
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(file.path(), "token\n")?;
//! # let path = file.path();
//! let token = file::read(path, &Limits::NAMED)?;
//! assert_eq!(token.as_slice(), b"token\n");
//!
//! let endless = file::read("/dev/zero".as_ref(), &Limits::NAMED).unwrap_err();
//! assert_eq!(endless.kind(), std::io::ErrorKind::FileTooLarge);
//! # Ok(())
//! # }
//! ```

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
    time::Duration,
};

use zeroize::Zeroizing;

/// How much of a file is read, for how long, and whether it has to be a regular one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a regular file.
    size: u64,
    /// The most bytes of a pipe, a terminal or a device, which do not say how long they are.
    stream: u64,
    /// How long a pipe may keep us waiting, for its writer and for its end.
    time: Duration,
    /// Whether anything but a regular file is refused.
    regular: bool,
}

impl Limits {
    /// For a file that a person names, on the command line or in the environment. Large enough for a
    /// kubeconfig of ten thousand contexts (30 MiB); a pipe may come from a shell and ask a person for
    /// a password first.
    pub const GIVEN: Self = Self {
        size: 256 << 20,
        stream: 64 << 20,
        time: Duration::from_secs(5 * 60),
        regular: false,
    };

    /// For a file that a configuration names: a certificate, a key, a token. A pipe has half a minute
    /// and one MiB, which is more than all the world's authorities need.
    pub const NAMED: Self =
        Self { size: 256 << 20, stream: 1 << 20, time: Duration::from_secs(30), regular: false };

    /// Refuses what is larger than `size`, whatever kind of file it is.
    #[must_use]
    pub const fn at_most(self, size: u64) -> Self {
        let stream = if self.stream < size { self.stream } else { size };
        Self { size, stream, ..self }
    }

    /// Gives up on a pipe after `time`.
    #[must_use]
    pub const fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Refuses pipes, terminals and devices.
    #[must_use]
    pub const fn regular(self) -> Self {
        Self { regular: true, ..self }
    }
}

/// Reads the whole of a file.
///
/// An empty result means that the file is empty: a pipe is waited for until somebody has written to it
/// and gone. Fails with [`ErrorKind::FileTooLarge`] and [`ErrorKind::TimedOut`] beyond the limits, with
/// [`ErrorKind::InvalidInput`] for what must be regular and is not, and as the system says otherwise.
pub fn read(path: &Path, limits: &Limits) -> io::Result<Zeroizing<Vec<u8>>> {
    read_open(&open(path)?, limits)
}

/// Reads a file that [`open`] opened, for callers that look at its owner and mode first.
pub fn read_open(file: &File, limits: &Limits) -> io::Result<Zeroizing<Vec<u8>>> {
    let found = file.metadata()?;
    if found.is_file() {
        return whole(file, found.len(), limits.size);
    }
    if found.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if limits.regular {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    stream::read(file, limits)
}

/// Opens a file for reading. Never waits: a pipe that nobody writes to is open at once.
pub fn open(path: &Path) -> io::Result<File> {
    stream::open(path)
}

/// Why a file cannot be used, in the words that people know from their shell. The standard library has
/// two texts for a missing file, one of which is `entity not found`.
///
/// ```
/// # use keyward_process::file::{self, Limits};
/// let error = file::read("/no/such/file".as_ref(), &Limits::NAMED).unwrap_err();
/// assert_eq!(file::reason(&error), "no such file or directory");
/// ```
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        // What was said by us or by another library.
        _ if error.get_ref().is_some() => error.to_string(),
        kind @ (io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory) => kind.to_string(),
        _ => error.to_string(),
    }
}

/// Checks that a file can be read, without reading it.
///
/// A pipe is not opened: its writer would take us for its reader, and break when we leave.
pub fn readable(path: &Path) -> io::Result<()> {
    stream::readable(path)
}

fn whole(file: &File, size: u64, most: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    if size > most {
        return Err(too_large(most));
    }
    // Enough room at once: a buffer that grows leaves copies behind. Within reason, for not every
    // file is as large as it says.
    let room = usize::try_from(size.min(64 << 20)).unwrap_or(0) + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    let read = file.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

fn too_large(most: u64) -> io::Error {
    let most = match most {
        small if small < 1 << 20 => format!("{small} bytes"),
        large => format!("{} MiB", large >> 20),
    };
    io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {most}"))
}

/// What has no length: pipes, terminals, devices.
#[cfg(unix)]
mod stream;

#[cfg(not(unix))]
mod stream {
    use std::{fs::File, io, path::Path};

    use zeroize::Zeroizing;

    use super::Limits;

    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn readable(path: &Path) -> io::Result<()> {
        File::open(path).map(|_| ())
    }

    pub(super) fn read(file: &File, limits: &Limits) -> io::Result<Zeroizing<Vec<u8>>> {
        super::whole(file, 0, limits.stream)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
