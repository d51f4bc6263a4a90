//! A process of ours: watched, signalled and reaped, in this order.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
    },
};

use super::{Status, spawn};
#[cfg(target_os = "linux")]
use super::{death_signal::DeathSignal, descendants::Descendants};

/// A child process. Until it is reaped its process id, and that of its group, belong to it alone,
/// which is why nothing is signalled after that. Dropped before, it is killed and reaped.
pub(super) struct Child {
    pid: Pid,
    /// Whether a signal goes to a whole group.
    pub(super) group: bool,
    watch: Option<OwnedFd>,
    ended: Option<Status>,
    reaped: bool,
    /// What it started, outside of its group too. Known once it was signalled.
    #[cfg(target_os = "linux")]
    descendants: Descendants,
    /// Kills it when we die. `None` where the system does not know of such a thing.
    #[cfg(target_os = "linux")]
    _death_signal: Option<DeathSignal>,
}

impl Child {
    /// Takes charge of a process that was just started. With `group`, it leads a process group that
    /// is signalled as a whole.
    pub(super) fn new(pid: Pid, group: bool) -> io::Result<Self> {
        let mut child = Self {
            pid,
            group,
            watch: None,
            ended: None,
            reaped: false,
            #[cfg(target_os = "linux")]
            descendants: Descendants::default(),
            #[cfg(target_os = "linux")]
            _death_signal: DeathSignal::arm(pid, group).ok(),
        };
        match watch(pid) {
            Ok(watch) => child.watch = Some(watch),
            // An old kernel, or a sandbox that does not know the call: we look now and then.
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(child)
    }

    /// A descriptor that is readable once the process has ended, where the system has such a thing.
    pub(super) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// How the process ended, if it has. It stays unreaped.
    pub(super) fn ended(&mut self) -> io::Result<Option<Status>> {
        if self.ended.is_none() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match wait(self.pid, options) {
                Ok(found) => self.ended = found.as_ref().map(status),
                Err(errno) => {
                    // Somebody else reaped it: a host that ignores SIGCHLD, or waits for all. Its
                    // number may be another's by now.
                    self.reaped = true;
                    return Err(match errno {
                        Errno::CHILD => io::Error::other(
                            "its end was taken note of by another part of this process, or \
                             `SIGCHLD` is ignored",
                        ),
                        errno => errno.into(),
                    });
                }
            }
        }
        Ok(self.ended)
    }

    /// Whether [`Child::ended`] has told so already.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Sends a signal to the process, or to its group, and to what it has started since, be it in a
    /// session of its own. A stopped process is woken to hear it.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.reaped {
            return;
        }
        // Found before the signal: children of a process that has ended cannot be told any more.
        #[cfg(target_os = "linux")]
        self.descendants.find(self.pid);
        // It fails when nobody is left, or when the process has become another user's (setuid):
        // either way there is nothing more that we could do.
        let send = if self.group { kill_process_group } else { kill_process };
        let _ = send(self.pid, signal);
        let _ = send(self.pid, Signal::CONT);
        #[cfg(target_os = "linux")]
        self.descendants.signal(signal);
    }

    /// Kills what is left and reaps the process.
    pub(super) fn end(&mut self) {
        if self.reaped {
            return;
        }
        if self.group || self.ended.is_none() {
            self.signal(Signal::KILL);
        } else {
            // It ended when it was told to; what it had started by then may not have.
            #[cfg(target_os = "linux")]
            self.descendants.signal(Signal::KILL);
        }
        self.reap();
    }

    /// Reaps the process, which has ended or was killed. One that hangs in the kernel even so (a
    /// dead network file system) is left to a thread.
    pub(super) fn reap(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        if self.reaped {
            return;
        }
        if self.ended.is_none() && !self.ends_within(PATIENCE) {
            let pid = self.pid;
            self.reaped = true;
            spawn(move || {
                let _ = wait(pid, WaitIdOptions::EXITED);
            });
            return;
        }
        let _ = wait(self.pid, WaitIdOptions::EXITED);
        self.reaped = true;
    }

    pub(super) fn ends_within(&mut self, limit: Duration) -> bool {
        match &self.watch {
            Some(watch) => {
                let timeout = limit.try_into().ok();
                let fds = &mut [PollFd::new(watch, PollFlags::IN)];
                while matches!(poll(fds, timeout.as_ref()), Err(Errno::INTR)) {}
            }
            None => {
                for _ in 0..limit.as_millis() {
                    if !matches!(self.ended(), Ok(None)) {
                        break;
                    }
                    // Waits by the clock: the end cannot be waited for here.
                    let _ = poll(&mut [], Duration::from_millis(1).try_into().ok().as_ref());
                }
            }
        }
        !matches!(self.ended(), Ok(None))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

fn wait(pid: Pid, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn status(status: &WaitIdStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Code(code),
        (None, signal) => Status::Signal(signal.unwrap_or(0)),
    }
}

#[cfg(target_os = "linux")]
fn watch(pid: Pid) -> rustix::io::Result<OwnedFd> {
    use rustix::process::{PidfdFlags, pidfd_open};
    // The descriptor is closed on exec by definition.
    pidfd_open(pid, PidfdFlags::NONBLOCK).or_else(|_| pidfd_open(pid, PidfdFlags::empty()))
}

#[cfg(not(target_os = "linux"))]
fn watch(_pid: Pid) -> rustix::io::Result<OwnedFd> {
    Err(Errno::NOSYS)
}
