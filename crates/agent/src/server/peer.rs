//! Identifies the process at the other end of a connection, as the kernel reports it.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat},
    process::Uid,
};

/// How many processes are remembered. One that asks often is one of them; most ask once.
const REMEMBERED: usize = 16;

/// The namespaces that have to be the agent's.
const NAMESPACES: [&str; 3] = ["ns/mnt", "ns/pid", "ns/user"];

/// The namespaces of a process: device and inode of the files in its `ns` directory.
type Namespaces = [(u64, u64); 3];

/// The id of a process that asks for a credential.
pub(super) type Peer = i32;

/// A process, identified by more than its id, which may be reused, and including the program it
/// runs: a dispatcher replaces itself with the real client, which asks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) pid: i32,
    started: u64,
    program: (u64, u64),
}

/// The namespaces that are served, and handles of the processes that asked last.
///
/// A handle only saves looking a process up again. The namespaces, which a process can change, are
/// read for every connection.
pub(super) struct Peers {
    user: Uid,
    own: Namespaces,
    /// Open files of the agent's namespaces. The kernel makes such a file anew for each look, unless
    /// somebody has it open.
    _open: Vec<OwnedFd>,
    known: HashMap<i32, Known>,
}

struct Known {
    process: Process,
    /// The process that started it. It stays that one for as long as it lives.
    parent: Option<(Process, Client)>,
}

impl Peers {
    /// Serves processes of the agent's own user and namespaces.
    pub(super) fn new() -> io::Result<Self> {
        let process = Process::open("self")?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = NAMESPACES.map(|name| openat(&process.0, name, flags, Mode::empty()).ok());
        Ok(Self {
            user: rustix::process::geteuid(),
            own: process.namespaces()?,
            _open: open.into_iter().flatten().collect(),
            known: HashMap::new(),
        })
    }

    /// The peer of a connection, or why it is not served. A user id alone does not keep containers
    /// out: root in a rootless container has the user's own id.
    pub(super) fn admit(&mut self, connection: impl AsFd) -> Result<Peer, &'static str> {
        let found = rustix::net::sockopt::socket_peercred(connection)
            .map_err(|_| "the system cannot identify the process")?;
        if found.uid != self.user {
            return Err("it belongs to another user");
        }
        let pid = found.pid.as_raw_nonzero().get();
        match self.namespaces(pid) {
            Ok(theirs) if theirs == self.own => Ok(pid),
            Ok(_) => Err("it is in another namespace, such as a container's"),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err("its namespaces cannot be read, so it may be in a container")
            }
            Err(_) => Err("it has ended"),
        }
    }

    fn namespaces(&mut self, pid: i32) -> io::Result<Namespaces> {
        // A handle whose process has ended does not speak for the next one with its id.
        if let Some(theirs) = self.known.get(&pid).and_then(|k| k.process.namespaces().ok()) {
            return Ok(theirs);
        }
        self.known.remove(&pid);
        let process = Process::open(&pid.to_string())?;
        let theirs = process.namespaces()?;
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(pid, Known { process, parent: None });
        Ok(theirs)
    }

    /// The process that started the peer: the client that wants a credential.
    pub(super) fn client(&mut self, peer: Peer) -> Option<Client> {
        let known = self.known.get_mut(&peer)?;
        if let Some((parent, client)) = &known.parent
            && let Ok(program) = parent.program()
        {
            return Some(Client { program, ..*client });
        }
        let pid = known.process.times()?.parent;
        let parent = Process::open(&pid.to_string()).ok()?;
        let started = parent.times()?.started;
        // Unreadable for a program that keeps its memory private; those all count as one.
        let program = parent.program().unwrap_or_default();
        let client = Client { pid, started, program };
        known.parent = Some((parent, client));
        Some(client)
    }

    /// The name of the program that wants a credential, such as `kubectl`: the one that started the
    /// peer, or with `own` the peer itself.
    pub(super) fn client_name(&self, peer: Peer, own: bool) -> Option<(i32, String)> {
        let pid = match self.known.get(&peer) {
            _ if own => peer,
            Some(known) => known.process.times()?.parent,
            None => Process::open(&peer.to_string()).ok()?.times()?.parent,
        };
        let mut space = [0; 64];
        let name = Process::open(&pid.to_string()).ok()?.read("comm", &mut space)?;
        Some((pid, String::from_utf8_lossy(name.trim_ascii_end()).into_owned()))
    }

    /// Closes all handles.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

/// A process by its directory in `/proc`. The handle stays that process's, whoever gets its id.
struct Process(OwnedFd);

struct Times {
    parent: i32,
    started: u64,
}

impl Process {
    fn open(id: &str) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, format!("/proc/{id}"), flags, Mode::empty())?))
    }

    /// The process's namespaces; fails if the process has ended.
    fn namespaces(&self) -> io::Result<Namespaces> {
        let [mount, pid, user] = NAMESPACES;
        Ok([self.stat(mount)?, self.stat(pid)?, self.stat(user)?])
    }

    /// The file that it runs; fails if it has ended.
    fn program(&self) -> io::Result<(u64, u64)> {
        self.stat("exe")
    }

    fn stat(&self, name: &str) -> io::Result<(u64, u64)> {
        let Stat { st_dev, st_ino, .. } = statat(&self.0, name, AtFlags::empty())?;
        Ok((st_dev, st_ino))
    }

    fn times(&self) -> Option<Times> {
        let mut space = [0; 1024];
        let text = self.read("stat", &mut space)?;
        // The name, in brackets, may contain anything.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let fields = std::str::from_utf8(text.get(end + 2..)?).ok()?;
        let mut fields = fields.split(' ');
        let parent = fields.nth(1)?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Times { parent, started })
    }

    /// A small file of the directory, which one read returns whole. `fs::read` needs eight calls, for
    /// every request.
    fn read<'a>(&self, name: &str, space: &'a mut [u8]) -> Option<&'a [u8]> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty()).ok()?;
        let count = rustix::io::read(&file, &mut *space).ok()?;
        space.get(..count)
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::disallowed_methods,
        reason = "a test starts programs and fails by panicking"
    )]

    use std::{os::unix::net::UnixStream, process::Command};

    use super::*;

    #[test]
    fn a_process_of_our_own_is_served_and_its_parent_known() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut peers = Peers::new().unwrap();
        // The second time by the handles of the first.
        for _ in 0..2 {
            let peer = peers.admit(&ours).unwrap();
            assert_eq!(u32::try_from(peer).unwrap(), std::process::id());
            let client = peers.client(peer).unwrap();
            assert_eq!(u32::try_from(client.pid).unwrap(), std::os::unix::process::parent_id());
            assert!(client.started > 0 || client.pid == 1);
            assert_eq!(peers.client_name(peer, false).unwrap().0, client.pid);
        }
    }

    #[test]
    fn a_process_in_another_namespace_is_not_served_although_it_was_before() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut peers = Peers::new().unwrap();
        peers.admit(&ours).unwrap();
        peers.own[0].1 += 1;
        assert!(peers.admit(&ours).unwrap_err().contains("namespace"));
    }

    #[test]
    fn the_handle_of_a_process_that_has_ended_speaks_for_nobody() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(&child.id().to_string()).unwrap();
        process.namespaces().unwrap();
        process.program().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(process.namespaces().is_err());
        assert!(process.program().is_err());
        assert!(process.times().is_none());
    }
}
