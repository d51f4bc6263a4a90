//! The agent's socket and lock: created at the start, removed at the end.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use crate::{Address, Unusable, client::pause, record};

/// How many clients may wait to be accepted.
const BACKLOG: i32 = 512;

/// How long an agent that no longer listens may hold its lock. One that was killed closes its files in an order of
/// the kernel's, and one that ends removes its socket first.
const ENDING: Duration = Duration::from_secs(2);

/// Where clients find the agent.
pub(super) struct Place {
    pub(super) address: Address,
    /// Until a newer agent takes over. A copy that stayed open here would keep clients waiting if the
    /// newer one died, and would keep the next one from starting.
    pub(super) held: Option<Held>,
    /// Device and inode of the socket, to notice when it is replaced.
    file: (u64, u64),
    /// The service manager created the socket, keeps it open and starts the next agent.
    pub(super) activated: bool,
}

/// The socket that the agent listens on, and the lock that only the listening agent holds.
pub(super) struct Held {
    pub(super) listener: UnixListener,
    pub(super) lock: File,
}

/// Why the agent cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum CannotStart {
    /// Another agent holds the lock.
    Running,
    /// The listening socket on stdin is not the one at this path.
    Other(PathBuf),
    /// No directory is usable for the socket.
    Unusable(Unusable),
    /// The system refused.
    Io(io::Error),
}

impl Place {
    /// Takes the lock, removes a socket that a dead agent left, and listens.
    pub(super) fn take(address: Address) -> Result<Self, CannotStart> {
        let lock = Self::lock(&address, || UnixStream::connect(&address.socket).is_ok())?;
        // Only the holder of the lock may do this: otherwise the socket could be a rival's.
        record::remove(&address.socket)?;
        let listener = UnixListener::bind(&address.socket)?;
        fs::set_permissions(&address.socket, Permissions::from_mode(0o600))?;
        Self::with(address, listener, lock)
    }

    /// The node's socket: on stdin if the service manager has created it, else like [`Place::take`].
    pub(super) fn take_system(address: Address) -> Result<Self, CannotStart> {
        let stdin = rustix::stdio::stdin();
        if rustix::net::sockopt::socket_acceptconn(stdin).is_ok_and(|listens| listens) {
            // The service manager listens all the time.
            let lock = Self::lock(&address, || false)?;
            let listener: UnixListener = rustix::io::fcntl_dupfd_cloexec(stdin, 3)
                .map_err(|error| CannotStart::Io(error.into()))?
                .into();
            if listener.local_addr()?.as_pathname() != Some(&address.socket) {
                return Err(CannotStart::Other(address.socket));
            }
            return Self::with(address, listener, lock)
                .map(|place| Self { activated: true, ..place });
        }
        // The service manager's socket answers although no agent holds the lock.
        if UnixStream::connect(&address.socket).is_ok() {
            return Err(CannotStart::Running);
        }
        Self::take(address)
    }

    /// Takes the lock. Waits for an agent that is about to end, but not for one that `listens`.
    fn lock(address: &Address, listens: impl Fn() -> bool) -> Result<File, CannotStart> {
        address.prepare().map_err(CannotStart::Unusable)?;
        let lock = address.open_lock("agent.lock")?;
        let mut waited = Duration::ZERO;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(rustix::io::Errno::WOULDBLOCK) if waited < ENDING && !listens() => {
                    waited += pause(4);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(CannotStart::Running),
                Err(error) => return Err(CannotStart::Io(error.into())),
            }
        }
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
        let file = (found.dev(), found.ino());
        Ok(Self { address, held: Some(Held { listener, lock }), file, activated: false })
    }

    /// Whether clients still find us: the socket exists and is ours.
    pub(super) fn is_ours(&self) -> bool {
        fs::symlink_metadata(&self.address.socket)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.file)
    }

    /// Removes the socket, unless others keep it. The lock ends with the process, or at a handover.
    pub(super) fn leave(&self) {
        if self.held.is_some() && self.is_ours() && !self.activated {
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
            Self::Other(path) => {
                write!(f, "the socket on standard input is not `{}`", path.display())
            }
            Self::Unusable(error) => write!(f, "{error}"),
            Self::Io(error) => write!(f, "the agent cannot listen: {error}"),
        }
    }
}

impl std::error::Error for CannotStart {}
