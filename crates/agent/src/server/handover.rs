//! Hands the listening socket to a newer agent, so that clients and bind mounts notice nothing.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_process::FileId;
use keyward_protocol::agent::{Hello, Message};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::{
    CannotStart, End, Place, Server, Settings,
    connection::{Id, State},
    service_manager,
};

/// How often the agent checks whether its program file was replaced.
const COMPARE: Duration = Duration::from_secs(5);

/// How often a new program is started before the old one gives up and keeps running.
const TRIES: usize = 10;

/// The program file at the start, and the attempts to start its replacement.
pub(super) struct Upgrade {
    program: Option<(PathBuf, Option<FileId>)>,
    compared: Duration,
    tries: usize,
}

impl Upgrade {
    pub(super) fn new(program: Option<&Path>, now: Duration) -> Self {
        let program = program.map(|path| (path.to_owned(), FileId::read(path).ok()));
        Self { program, compared: now, tries: 0 }
    }

    /// Whether it is time to look again.
    fn is_time(&self, now: Duration) -> bool {
        now >= self.compared + COMPARE
    }

    /// The program, if its file was replaced. One that fails to take over is tried only so often.
    fn due(&mut self, now: Duration) -> Option<PathBuf> {
        self.compared = now;
        let (path, own) = self.program.as_ref()?;
        let found = FileId::read(path).ok()?;
        if Some(found) == *own || self.tries >= TRIES {
            return None;
        }
        self.tries += 1;
        Some(path.clone())
    }
}

impl Server {
    /// Takes over the socket of the agent that is running at `settings.address`.
    pub fn take_over(settings: Settings) -> Result<Self, CannotStart> {
        let (listener, lock) = receive(&settings.address.socket)?;
        let place = Place::with(settings.address.clone(), listener.into(), File::from(lock))?;
        Self::at(place, settings)
    }

    /// Starts the new program once nothing is running.
    pub(super) fn consider_upgrade(&mut self, now: Duration) {
        if !self.upgrade.is_time(now) {
            return;
        }
        if self.settings.system {
            // Logins of images are cheap to get again, so unlike a user's agent it does not wait until they expire.
            let may_end = self.place.activated && self.connections.is_empty();
            if may_end && self.upgrade.due(now).is_some() {
                self.end = Some(End::Upgraded);
            }
            return;
        }
        if self.is_busy() || self.handed_over.is_some() {
            return;
        }
        if let Some(program) = self.upgrade.due(now) {
            // The new program asks for the socket itself; if it does not start, nothing changes.
            if let Err(error) = crate::start::spawn_successor(&program) {
                tracing::warn!(%error, program = %program.display(), "cannot start the new agent");
            }
        }
    }

    /// Whether a new agent would lose something. It would not know that this one is locked.
    fn is_busy(&self) -> bool {
        let runs = self.slots.values().any(|slot| !slot.is_idle());
        runs || !self.secrets.is_empty() || self.locked
    }

    pub(super) fn hand_over(&mut self, id: Id) {
        if self.is_busy() || self.handed_over.is_some() {
            return self.end_with(id, &Message::Direct("the agent is busy or locked".into()));
        }
        let (Some(connection), Some(held)) = (self.connections.get_mut(&id), &self.place.held)
        else {
            return;
        };
        connection.flush();
        let fds = [held.listener.as_fd(), held.lock.as_fd()];
        let sent = send(&connection.stream, fds);
        let successor = connection.peer();
        self.close(id);
        if sent.is_ok() {
            if let (Some(manager), Some(successor)) = (&self.settings.service_manager, successor)
                && let Err(error) = service_manager::set_main_process(manager, successor)
            {
                tracing::warn!(%error, "cannot tell the service manager of the new agent");
            }
            self.place.held = None;
            self.handed_over = Some(self.settings.clock.elapsed());
            self.dismiss();
        }
    }

    /// Closes the connections of all who would ask more of an agent that ends: they connect to the
    /// one that has taken over.
    fn dismiss(&mut self) {
        self.connections.retain(|_, connection| {
            matches!(connection.state, State::Waiting { .. } | State::Leased { .. } | State::Ending)
        });
        self.proxies.dismiss();
    }
}

/// The byte that carries the descriptors.
const MARK: u8 = b'F';

fn send(stream: &UnixStream, fds: [std::os::fd::BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::net::sendmsg(stream, &[IoSlice::new(&[MARK])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Asks for the descriptors: the listening socket and the lock.
fn receive(socket: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    let stream = UnixStream::connect(socket)?;
    let timeout = Some(Duration::from_secs(5));
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)?;
    let mut wire = Vec::new();
    Message::Hello(Hello::ours(env!("CARGO_PKG_VERSION"))).write(&mut wire);
    Message::TakeOver.write(&mut wire);
    io::Write::write_all(&mut &stream, &wire)?;
    let mut found = Vec::new();
    let mut bytes = [0; 256];
    while found.len() < 2 {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let message = rustix::net::recvmsg(&stream, &mut parts, &mut control, flags)?;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = part {
                found.extend(fds);
            }
        }
        if message.bytes == 0 || message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("the agent did not hand over its socket"));
        }
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(listener), Some(lock)) => Ok((listener, lock)),
        _ => Err(io::Error::other("the agent did not hand over its socket")),
    }
}
