//! Has the kernel kill a program when our own process dies, in whatever way.
//!
//! Nothing of ours runs after a SIGKILL, so the kernel has to do it. A parent-death signal would
//! need a hook between fork and exec, fires when the *thread* that started the program ends, and
//! reaches only the program itself. A pipe does better: Linux sends the owner of its read end a
//! signal of our choice when the last write end closes, and the owner may be a process group. We
//! hold both ends and nobody else does, so the write end closes with our process.
//!
//! The read end has to outlive the write end at that moment. The kernel releases the descriptors of
//! a dying process in the reverse order of their numbers (since Linux 4.3), so the read end gets the
//! lower number. `tests/orphans.rs` watches over this.
#![expect(unsafe_code, reason = "no crate has a safe call for `F_SETOWN` and `F_SETSIG`")]

use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::Pid,
};

/// A program, or its process group, that dies with us. Dropped, it is left alone.
pub(super) struct DeathSignal {
    /// Dropped before the write end, so that nothing is sent while we live.
    _read: OwnedFd,
    _write: OwnedFd,
}

impl DeathSignal {
    /// For a program that was started and not reaped yet; with `group`, for its whole process group.
    pub(super) fn arm(pid: Pid, group: bool) -> rustix::io::Result<Self> {
        let (read, mut write) = pipe_with(PipeFlags::CLOEXEC)?;
        if read.as_raw_fd() > write.as_raw_fd() {
            // Another thread closed a descriptor in between, and its number was taken.
            write = rustix::io::fcntl_dupfd_cloexec(&write, read.as_raw_fd())?;
        }
        let pid = pid.as_raw_nonzero().get();
        let owner = if group { -pid } else { pid };
        set(&read, libc::F_SETOWN, owner)?;
        set(&read, F_SETSIG, libc::SIGKILL)?;
        fcntl_setfl(&read, OFlags::NONBLOCK | OFlags::ASYNC)?;
        Ok(Self { _read: read, _write: write })
    }
}

/// From Linux's `fcntl.h`, where `libc` does not have it from.
const F_SETSIG: libc::c_int = 10;

fn set(end: &OwnedFd, command: libc::c_int, value: libc::c_int) -> rustix::io::Result<()> {
    // SAFETY: the descriptor is open, because it is borrowed from its owner, and both commands take
    // an integer: no memory is passed.
    let done = unsafe { libc::fcntl(end.as_raw_fd(), command, value) };
    if done == -1 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(())
}
