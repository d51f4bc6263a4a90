//! Opens pseudo-terminals.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

/// Opens a terminal: the outer side, and the inner one for a program.
pub(crate) fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&outer)?;
    unlockpt(&outer)?;
    let name = ptsname(&outer, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let inner = rustix::fs::open(name, flags, Mode::empty())?;
    Ok((outer, inner))
}
