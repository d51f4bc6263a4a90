use std::{
    fs::File,
    io::{self, ErrorKind},
    os::unix::fs::FileTypeExt as _,
    path::Path,
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, poll},
    fs::{Access, AtFlags, CWD, Mode, OFlags, accessat},
    io::Errno,
};
use zeroize::Zeroizing;

use super::{Limits, too_large};
use crate::clock::{Clock as _, SystemClock};

/// The first buffer. Larger contents move to a larger one, and the old one is wiped.
const ROOM: usize = 64 << 10;

pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

pub(super) fn readable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        return Ok(accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS)?);
    }
    open(path).map(|_| ())
}

pub(super) fn read(file: &File, limits: &Limits) -> io::Result<Zeroizing<Vec<u8>>> {
    let most = usize::try_from(limits.stream).unwrap_or(usize::MAX);
    let until = SystemClock.elapsed() + limits.time;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    let mut bytes = Zeroizing::new(Vec::with_capacity(ROOM.min(most) + 1));
    loop {
        if bytes.len() > most {
            return Err(too_large(limits.stream));
        }
        if bytes.len() == bytes.capacity() {
            grow(&mut bytes, most);
        }
        match rustix::io::read(file, spare_capacity(&mut bytes)) {
            // A pipe ends when its writer goes. One whose writer has not come yet looks the same to
            // a reader, and only a poll tells them apart.
            Ok(0) if is_pipe && bytes.is_empty() => {
                if !wait(file, until)?.contains(PollFlags::IN) {
                    return Ok(bytes);
                }
            }
            Ok(0) => return Ok(bytes),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                wait(file, until)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits until there is something to read, or nobody left to write it.
fn wait(file: &File, until: Duration) -> io::Result<PollFlags> {
    loop {
        let left = until.saturating_sub(SystemClock.elapsed());
        if left.is_zero() {
            let message = "nothing was written to it, or not all of it, in the time allowed";
            return Err(io::Error::new(ErrorKind::TimedOut, message));
        }
        let mut polled = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut polled, left.min(DAY).try_into().ok().as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(polled[0].revents()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The longest single poll, which any system's time type holds.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Doubles the room, wiping what the smaller one held.
fn grow(bytes: &mut Zeroizing<Vec<u8>>, most: usize) {
    let room = bytes.capacity().saturating_mul(2).min(most.saturating_add(1));
    let mut larger = Zeroizing::new(Vec::with_capacity(room));
    larger.extend_from_slice(bytes);
    *bytes = larger;
}
