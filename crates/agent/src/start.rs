//! Starts the agent, only once however many clients want it.
//!
//! Connect; if nobody listens, take the start lock, connect again, start the program and wait for
//! its byte on a pipe. Without the lock, twenty clients would start up to twenty agents that remove
//! each other's sockets.

#![expect(
    clippy::disallowed_methods,
    reason = "the agent outlives whoever starts it, which the runner of plugins never lets happen"
)]

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

#[cfg(feature = "server")]
use keyward_process::harden;
use rustix::{
    event::PollFlags,
    fs::{FlockOperation, flock},
};

use crate::{
    Address, Client, Unreachable,
    client::{is_ready, pause},
};

/// How long a client waits while another one starts the agent.
const OTHERS: Duration = Duration::from_secs(5);
/// How long the agent may take until it listens.
const READY: Duration = Duration::from_secs(5);
/// How long nobody tries again after a failed start, in seconds.
const FAILED: i64 = 5;

/// The program that is the agent and nothing else.
const PROGRAM: &str = "keyward-agent";

/// The variables of the client that the agent inherits. It needs no others, and their values would
/// be those of whichever client came first.
const KEPT: [&str; 10] = [
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "PATH",
    "KEYWARD_AGENT_SOCK",
    "KEYWARD_AGENT_VERIFY",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
];

/// Connects to the agent, and starts it if none is running. `program` is `keyward`.
pub fn connect_or_start(
    address: &Address,
    program: &Path,
    var: impl Fn(&str) -> Option<OsString>,
) -> Result<Client, Unreachable> {
    let mut waited = Duration::ZERO;
    let mut lock = None;
    loop {
        match Client::connect(&address.socket) {
            Err(Unreachable::Absent) => {}
            found => return found,
        }
        let file = match &lock {
            Some(file) => file,
            None => {
                address.prepare().map_err(|error| Unreachable::Io(io::Error::other(error)))?;
                lock.insert(address.open_lock("start.lock").map_err(Unreachable::Io)?)
            }
        };
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return start(address, program, file, var),
            Err(rustix::io::Errno::WOULDBLOCK) if waited < OTHERS => waited += pause(4),
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Unreachable::Starting),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Starts the agent while holding the lock.
fn start(
    address: &Address,
    program: &Path,
    lock: &File,
    var: impl Fn(&str) -> Option<OsString>,
) -> Result<Client, Unreachable> {
    match Client::connect(&address.socket) {
        Err(Unreachable::Absent) => {}
        found => return found,
    }
    if failed_lately(lock) {
        return Err(Unreachable::Absent);
    }
    let started = spawn(program, var);
    // A non-empty lock file marks a failure, and its modification time says when. A start that was
    // interrupted says nothing about the next.
    let failed = started.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted);
    let _ = lock.set_len(u64::from(failed));
    started.map_err(Unreachable::Io)?;
    Client::connect(&address.socket)
}

/// The agent: the program `keyward-agent`, given as such or beside `keyward`; else `keyward agent`.
fn agent(program: &Path) -> Command {
    let small = program.with_file_name(PROGRAM);
    if small.is_file() {
        return Command::new(small);
    }
    let mut command = Command::new(program);
    command.arg("agent");
    command
}

/// Starts the program in the background: without a terminal or our descriptors, and with a pipe as
/// its stdout.
fn spawn(program: &Path, var: impl Fn(&str) -> Option<OsString>) -> io::Result<()> {
    let mut command = agent(program);
    command.arg("--background").current_dir("/").env_clear();
    command.envs(KEPT.iter().filter_map(|name| Some((name, var(name)?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let Some(mut ready) = child.stdout.take() else {
        return Err(io::Error::other("the agent has no stdout"));
    };
    if !is_ready(&ready, PollFlags::IN, READY)? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut byte = [0];
    match ready.read(&mut byte)? {
        1 => Ok(()),
        _ if child.wait()?.code().is_none() => Err(io::ErrorKind::Interrupted.into()),
        _ => Err(io::Error::other("the agent ended before it listened")),
    }
}

/// Whether another client has just failed to start the agent. Two hundred clients must not all try
/// in turn.
fn failed_lately(lock: &File) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    lock.metadata().is_ok_and(|found| {
        found.len() > 0 && (0..FAILED).contains(&now.saturating_sub(found.mtime()))
    })
}

/// Starts a newer program, which takes over the socket itself.
#[cfg(feature = "server")]
pub(crate) fn spawn_successor(program: &Path) -> io::Result<()> {
    let mut command = agent(program);
    command.args(["--background", "--take-over"]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // Normally it outlives us; if not, it has to be reaped.
    std::thread::Builder::new().spawn(move || child.wait())?;
    Ok(())
}

/// Starts a proxy, which connects to the agent by itself. Calls `ended` with its process id when it
/// has ended.
#[cfg(feature = "server")]
pub(crate) fn spawn_proxy(
    program: &Path,
    service: &str,
    ended: impl FnOnce(u32) + Send + 'static,
) -> io::Result<u32> {
    let mut command = Command::new(program);
    command.args(["proxy", "serve", service]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let process = child.id();
    harden::restore(process);
    std::thread::Builder::new().spawn(move || {
        let _ = child.wait();
        ended(process);
    })?;
    Ok(process)
}
