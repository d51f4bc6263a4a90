//! Identifies the process at the other end of a connection, as the kernel reports it.

use std::{
    fs,
    io::{self, Read as _},
    os::{fd::AsFd, unix::fs::MetadataExt as _},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

const NAMESPACES: [&str; 3] = ["mnt", "pid", "user"];

/// The namespaces of a process, as the files in its `ns` directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Namespaces([(u64, u64); 3]);

/// A process that asks for a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) pid: i32,
}

/// A process, identified by more than its id, which may be reused, and including the program it
/// runs: a dispatcher replaces itself with the real client, which asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) pid: i32,
    started: u64,
    program: (u64, u64),
}

impl Namespaces {
    /// The agent's own namespaces.
    pub(super) fn own() -> io::Result<Self> {
        Self::of("self")
    }

    fn of(process: &str) -> io::Result<Self> {
        let mut found = [(0, 0); 3];
        for (place, name) in found.iter_mut().zip(NAMESPACES) {
            let file = fs::metadata(format!("/proc/{process}/ns/{name}"))?;
            *place = (file.dev(), file.ino());
        }
        Ok(Self(found))
    }
}

impl Peer {
    /// The peer of a connection, or why it is not served. A user id alone does not keep containers
    /// out: root in a rootless container has the user's own id.
    pub(super) fn of(connection: impl AsFd, own: &Namespaces) -> Result<Self, &'static str> {
        let found = rustix::net::sockopt::socket_peercred(connection)
            .map_err(|_| "the system cannot identify the process")?;
        if found.uid != rustix::process::geteuid() {
            return Err("it belongs to another user");
        }
        // A process that has ended must not be mistaken for the next one with its id.
        let handle = pidfd_open(found.pid, PidfdFlags::empty()).map_err(|_| "it has ended")?;
        let pid = found.pid.as_raw_nonzero().get();
        let theirs = Namespaces::of(&pid.to_string())
            .map_err(|_| "its namespaces cannot be read, so it may be in a container")?;
        let mut ended = [PollFd::new(&handle, PollFlags::IN)];
        match poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) if theirs == *own => Ok(Self { pid }),
            Ok(0) => Err("it is in another namespace, such as a container's"),
            _ => Err("it has ended"),
        }
    }

    /// The process that started this one: the client that wants a credential.
    pub(super) fn client(self) -> Option<Client> {
        Client::of(stat(self.pid)?.parent)
    }

    /// The name of the program that wants a credential, such as `kubectl`.
    pub(super) fn client_name(self) -> Option<(i32, String)> {
        let pid = stat(self.pid)?.parent;
        let mut space = [0; 64];
        let name = read(&format!("/proc/{pid}/comm"), &mut space)?;
        Some((pid, String::from_utf8_lossy(name.trim_ascii_end()).into_owned()))
    }
}

impl Client {
    fn of(pid: i32) -> Option<Self> {
        Pid::from_raw(pid)?;
        let started = stat(pid)?.started;
        // Unreadable for a program that keeps its memory private; those all count as one.
        let program = fs::metadata(format!("/proc/{pid}/exe")).map(|f| (f.dev(), f.ino()));
        Some(Self { pid, started, program: program.unwrap_or_default() })
    }
}

struct Stat {
    parent: i32,
    started: u64,
}

fn stat(pid: i32) -> Option<Stat> {
    let mut space = [0; 1024];
    let text = read(&format!("/proc/{pid}/stat"), &mut space)?;
    // The name, in brackets, may contain anything.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(text.get(end + 2..)?).ok()?;
    let mut fields = fields.split(' ');
    let parent = fields.nth(1)?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { parent, started })
}

/// A small file of `/proc`, which one read returns whole. `fs::read` needs eight calls, for every
/// request.
fn read<'a>(path: &str, space: &'a mut [u8]) -> Option<&'a [u8]> {
    let count = fs::File::open(path).ok()?.read(space).ok()?;
    space.get(..count)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_of_our_own_is_served_and_its_parent_known() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let own = Namespaces::own().unwrap();
        let peer = Peer::of(&ours, &own).unwrap();
        assert_eq!(u32::try_from(peer.pid).unwrap(), std::process::id());
        let client = peer.client().unwrap();
        assert_eq!(u32::try_from(client.pid).unwrap(), std::os::unix::process::parent_id());
        assert!(client.started > 0 || client.pid == 1);
        assert_eq!(peer.client_name().unwrap().0, client.pid);
    }

    #[test]
    fn a_process_in_another_namespace_is_not_served() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut other = Namespaces::own().unwrap();
        other.0[0].1 += 1;
        assert!(Peer::of(&ours, &other).unwrap_err().contains("namespace"));
    }
}
