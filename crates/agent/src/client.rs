//! A blocking connection to the agent.

use std::{
    fmt, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    time::Duration,
};

use keyward_protocol::agent::{Hello, Inbox, Message};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
    process::{Pid, PidfdFlags, pidfd_open},
};
use zeroize::{Zeroize as _, Zeroizing};

/// How long the agent may take to send its first frame. A slower one counts as stuck.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// How long an agent that gets no processor time may take to send its first frame.
const CROWDED: Duration = Duration::from_secs(10);

/// How often a client asks, if agents go away before they have answered.
const ATTEMPTS: usize = 4;

/// Makes an attempt again if the agent went away before it had answered: one that ends or is replaced leaves its
/// clients to the next one.
pub fn until_answered<T>(
    mut attempt: impl FnMut() -> Result<T, Unreachable>,
) -> Result<T, Unreachable> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(Unreachable::Gone) => {}
            answer => return answer,
        }
    }
    attempt()
}

/// Why the agent cannot be asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unreachable {
    /// Nobody listens.
    Absent,
    /// The process that listens has another user id than ours.
    Foreign,
    /// Another process has been starting the agent for seconds.
    Starting,
    /// The agent listens but does not answer.
    Stuck,
    /// The agent answers, but what was asked for did not come in time.
    Late,
    /// The agent closed the connection early.
    Gone,
    /// The agent speaks no version that we know, or another protocol.
    Version,
    /// The system refused.
    Io(io::Error),
}

/// A connection to an agent of our own user.
pub struct Client {
    stream: UnixStream,
    inbox: Inbox,
    process: Pid,
    patience: Duration,
    greeted: bool,
}

impl Client {
    /// Connects to the agent at `socket`. Starts nothing.
    pub fn connect(socket: &Path) -> Result<Self, Unreachable> {
        let address = SocketAddrUnix::new(socket)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::STREAM;
        let mut waited = Duration::ZERO;
        let fd: OwnedFd = loop {
            let fd = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
            match rustix::net::connect(&fd, &address) {
                Ok(()) => break fd,
                Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(Unreachable::Absent),
                // The queue of the listener is full: it is busy, or stuck.
                Err(Errno::AGAIN) if waited < PATIENCE => waited += pause(5),
                Err(Errno::AGAIN) => return Err(Unreachable::Stuck),
                Err(error) => return Err(error.into()),
            }
        };
        let peer = rustix::net::sockopt::socket_peercred(&fd)?;
        if peer.uid != rustix::process::geteuid() {
            return Err(Unreachable::Foreign);
        }
        Ok(Self {
            stream: fd.into(),
            inbox: Inbox::default(),
            process: peer.pid,
            patience: PATIENCE,
            greeted: false,
        })
    }

    /// Waits this long for the agent's greeting instead of [`PATIENCE`], for an agent that starts when a client
    /// connects.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sends the greeting and the question in one write.
    pub fn ask(&mut self, question: &Message) -> Result<(), Unreachable> {
        self.ask_all(std::slice::from_ref(question))
    }

    /// Sends the greeting and several questions in one write: the answers come in this order.
    pub fn ask_all(&mut self, questions: &[Message]) -> Result<(), Unreachable> {
        let mut wire = Zeroizing::new(Vec::with_capacity(16 << 10));
        Message::Hello(Hello::ours(env!("CARGO_PKG_VERSION"))).write(&mut wire);
        for question in questions {
            question.write(&mut wire);
        }
        self.write(&wire)
    }

    /// Sends another message.
    pub fn send(&mut self, message: &Message) -> Result<(), Unreachable> {
        let mut wire = Zeroizing::new(Vec::new());
        message.write(&mut wire);
        self.write(&wire)
    }

    /// The agent's process.
    pub fn process(&self) -> i32 {
        self.process.as_raw_nonzero().get()
    }

    /// A handle of the agent's process, to wait for its end. It stays that process's, whoever gets its
    /// id.
    pub fn agent_process(&self) -> Result<AgentProcess, Unreachable> {
        match pidfd_open(self.process, PidfdFlags::empty()) {
            Ok(handle) => Ok(AgentProcess(handle)),
            Err(Errno::SRCH) => Err(Unreachable::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the agent has greeted us, and so has looked who we are.
    pub fn greeted(&mut self) -> Result<(), Unreachable> {
        while !self.greeted {
            match self.inbox.next() {
                Ok(Some(Message::Hello(hello))) => {
                    hello.common().ok_or(Unreachable::Version)?;
                    self.greeted = true;
                }
                Ok(Some(_)) | Err(_) => return Err(Unreachable::Version),
                Ok(None) => self.read(self.patience)?,
            }
        }
        Ok(())
    }

    /// The agent's next message. Waits [`PATIENCE`] for its greeting, and for what follows as long as
    /// `limit`, unless its process is stopped.
    pub fn receive(&mut self, limit: Duration) -> Result<Message, Unreachable> {
        self.greeted()?;
        loop {
            match self.inbox.next() {
                Ok(Some(message)) => return Ok(message),
                Err(_) => return Err(Unreachable::Version),
                Ok(None) => self.read(limit)?,
            }
        }
    }

    fn read(&mut self, limit: Duration) -> Result<(), Unreachable> {
        self.wait(PollFlags::IN, if self.greeted { limit } else { self.patience })?;
        let mut bytes = [0; 16 << 10];
        match rustix::net::recv(&self.stream, &mut bytes, rustix::net::RecvFlags::empty()) {
            Ok((0, _)) | Err(Errno::CONNRESET) => Err(Unreachable::Gone),
            Ok((count, _)) => {
                self.inbox.push(&bytes[..count]);
                // Wiping goes byte by byte, and most of the space was not used.
                bytes[..count].zeroize();
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Unreachable> {
        while !bytes.is_empty() {
            match rustix::net::send(&self.stream, bytes, rustix::net::SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, PATIENCE)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Unreachable::Gone),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until the connection is ready. When the agent is late, the state of its process shows
    /// why: a stopped process will not answer, one that waits for a processor will.
    fn wait(&self, flags: PollFlags, limit: Duration) -> Result<(), Unreachable> {
        let (mut waited, mut step) = (Duration::ZERO, PATIENCE.min(limit));
        loop {
            if is_ready(&self.stream, flags, step)? {
                return Ok(());
            }
            waited += step;
            match next_wait(self.state(), waited, limit) {
                Some(next) => step = next,
                // The agent may have answered since, and be asleep because of that.
                None if is_ready(&self.stream, flags, Duration::ZERO)? => return Ok(()),
                None if self.greeted && waited >= limit => return Err(Unreachable::Late),
                None => return Err(Unreachable::Stuck),
            }
        }
    }

    /// The state of the agent's process, as the kernel abbreviates it.
    fn state(&self) -> Option<u8> {
        let stat = std::fs::read(format!("/proc/{}/stat", self.process)).ok()?;
        // The process name before the state may contain anything.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        stat.get(end + 2).copied()
    }
}

/// An agent's process.
#[derive(Debug)]
pub struct AgentProcess(OwnedFd);

impl AgentProcess {
    /// Waits until the process has ended. Then its lock is free and the next agent can start. Returns
    /// whether it ended within `limit`.
    pub fn has_ended(&self, limit: Duration) -> Result<bool, Unreachable> {
        Ok(is_ready(&self.0, PollFlags::IN, limit)?)
    }
}

/// Whether a descriptor gets ready in this time.
pub(crate) fn is_ready(fd: impl AsFd, flags: PollFlags, within: Duration) -> Result<bool, Errno> {
    let mut fds = [PollFd::new(&fd, flags)];
    loop {
        match poll(&mut fds, Some(&timespec(within))) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// How long to wait once more for an agent whose process is in this state; `None` if it is stuck.
fn next_wait(state: Option<u8>, waited: Duration, limit: Duration) -> Option<Duration> {
    match state {
        Some(b'T' | b't') => None,
        _ if waited < limit => Some(PATIENCE.min(limit.saturating_sub(waited))),
        // It waits for a processor or a disk.
        Some(b'R' | b'D') if waited < CROWDED => Some(PATIENCE),
        _ => None,
    }
}

/// Sleeps for so many milliseconds, where there is no event to wait for.
pub(crate) fn pause(milliseconds: u64) -> Duration {
    let time = Duration::from_millis(milliseconds);
    let _ = poll(&mut [], Some(&timespec(time)));
    time
}

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

impl From<Errno> for Unreachable {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("no agent is running"),
            Self::Foreign => f.write_str("the agent's socket belongs to another user"),
            Self::Starting => {
                f.write_str("another process is starting the agent and does not finish")
            }
            Self::Stuck => f.write_str("the agent does not answer"),
            Self::Late => f.write_str("the plugin took too long"),
            Self::Gone => f.write_str("the agent went away"),
            Self::Version => f.write_str("the agent speaks another protocol"),
            Self::Io(error) => write!(f, "the agent cannot be reached: {error}"),
        }
    }
}

impl std::error::Error for Unreachable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_hands_over_is_followed_by_the_next_one() {
        let mut attempts = 0;
        let answer = until_answered(|| {
            attempts += 1;
            if attempts < ATTEMPTS { Err(Unreachable::Gone) } else { Ok(attempts) }
        });
        assert!(matches!(answer, Ok(ATTEMPTS)), "{answer:?}");
        let failure = until_answered(|| Err::<(), _>(Unreachable::Gone));
        assert!(matches!(failure, Err(Unreachable::Gone)), "{failure:?}");
    }

    #[test]
    fn an_agent_that_waits_for_a_processor_is_waited_for_without_spinning() {
        for waited in [PATIENCE, PATIENCE * 2, PATIENCE * 19] {
            assert_eq!(next_wait(Some(b'R'), waited, PATIENCE), Some(PATIENCE));
        }
        assert_eq!(next_wait(Some(b'R'), CROWDED, PATIENCE), None);
    }

    #[test]
    fn an_agent_that_sleeps_or_is_stopped_is_not_waited_for() {
        assert_eq!(next_wait(Some(b'S'), PATIENCE, PATIENCE), None);
        assert_eq!(next_wait(None, PATIENCE, PATIENCE), None);
        // Unless it runs a plugin for us.
        let long = Duration::from_secs(620);
        assert_eq!(next_wait(Some(b'S'), PATIENCE, long), Some(PATIENCE));
        let almost = long.saturating_sub(PATIENCE / 2);
        assert_eq!(next_wait(Some(b'S'), almost, long), Some(PATIENCE / 2));
        assert_eq!(next_wait(Some(b'T'), PATIENCE, long), None);
    }
}
