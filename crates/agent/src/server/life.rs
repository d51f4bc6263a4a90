//! The agent's socket and lock: created at the start, removed at the end.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::{
        fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::UnixListener,
    },
};

use rustix::fs::{FlockOperation, flock};

use crate::{Address, Unusable};

/// How many clients may wait to be accepted.
const BACKLOG: i32 = 512;

/// The socket that the agent listens on, and the lock that only the listening agent holds.
pub(super) struct Place {
    pub(super) address: Address,
    pub(super) listener: UnixListener,
    pub(super) lock: File,
    /// Device and inode of the socket, to notice when it is replaced.
    file: (u64, u64),
}

/// Why the agent cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum CannotStart {
    /// Another agent holds the lock.
    Running,
    /// No directory is usable for the socket.
    Unusable(Unusable),
    /// The system refused.
    Io(io::Error),
}

impl Place {
    /// Takes the lock, removes a socket that a dead agent left, and listens.
    pub(super) fn take(address: Address) -> Result<Self, CannotStart> {
        address.prepare().map_err(CannotStart::Unusable)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let lock = options.open(address.beside("agent.lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(CannotStart::Running),
            Err(error) => return Err(CannotStart::Io(error.into())),
        }
        // Only the holder of the lock may do this: otherwise the socket could be a rival's.
        match fs::remove_file(&address.socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let listener = UnixListener::bind(&address.socket)?;
        fs::set_permissions(&address.socket, Permissions::from_mode(0o600))?;
        Self::with(address, listener, lock)
    }

    /// A socket that is bound, by us or by the agent that handed it over.
    pub(super) fn with(
        address: Address,
        listener: UnixListener,
        lock: File,
    ) -> Result<Self, CannotStart> {
        listener.set_nonblocking(true)?;
        // Also for a socket that listens already: it then names us to clients, not our predecessor.
        rustix::net::listen(&listener, BACKLOG).map_err(io::Error::from)?;
        let found = fs::symlink_metadata(&address.socket)?;
        Ok(Self { address, listener, lock, file: (found.dev(), found.ino()) })
    }

    /// Whether clients still find us: the socket exists and is ours.
    pub(super) fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.address.socket)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }

    /// Removes the socket. The lock ends with the process.
    pub(super) fn leave(&self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.address.socket);
        }
    }
}

impl From<io::Error> for CannotStart {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl std::fmt::Display for CannotStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Running => f.write_str("another agent is already running"),
            Self::Unusable(error) => write!(f, "{error}"),
            Self::Io(error) => write!(f, "the agent cannot listen: {error}"),
        }
    }
}

impl std::error::Error for CannotStart {}
