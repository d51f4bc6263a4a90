//! What a program writes to stderr: shown line by line where somebody wants that, and the last of it
//! kept for errors.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{buffer::spare_capacity, io::Errno};
use zeroize::Zeroizing;

use super::{Invocation, buffer::Buffer, lines::Lines};
use crate::clock::{Clock, SystemClock};

/// Reads of one stream in a row: a program that writes without end must not keep us from looking at
/// the clock, nor at the other stream.
pub(super) const ROUNDS: usize = 64;

/// The stderr of a program, and what has come from it.
pub(super) struct StderrPipe {
    /// `None` where it is the terminal itself, or over.
    pipe: Option<OwnedFd>,
    kept: Buffer,
    lines: Option<Lines>,
    limit: usize,
}

impl StderrPipe {
    pub(super) fn new(invocation: &Invocation, pipe: Option<OwnedFd>) -> Self {
        let (kept, lines) = (Buffer::default(), Lines::of(invocation));
        Self { pipe, kept, lines, limit: invocation.limits.stderr }
    }

    /// To wait for more.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Nobody can add to it.
    pub(super) fn is_over(&self) -> bool {
        self.pipe.is_none()
    }

    /// Shows what has waited long enough for the rest of its line. Returns when to look again, if
    /// there is more of that.
    pub(super) fn tick(&mut self, now: Duration) -> Option<Duration> {
        let lines = self.lines.as_mut()?;
        lines.tick(now);
        lines.due()
    }

    /// Reads what is there.
    pub(super) fn read(&mut self) {
        for _ in 0..ROUNDS {
            let Some(pipe) = &self.pipe else { break };
            let before = self.kept.len();
            match rustix::io::read(pipe, spare_capacity(self.kept.room())) {
                Ok(0) => self.pipe = None,
                Ok(_) => {
                    if let Some(lines) = &mut self.lines {
                        lines.feed(self.kept.bytes_from(before), SystemClock.elapsed());
                    }
                    // Now and then, not for each byte of a program that drips.
                    if self.kept.len() >= self.limit.saturating_mul(2) {
                        self.kept.keep_last(self.limit);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.pipe = None,
            }
        }
    }

    /// The last of what was read, when there will be no more.
    pub(super) fn take(&mut self) -> Zeroizing<Vec<u8>> {
        if let Some(lines) = &mut self.lines {
            lines.finish();
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.keep_last(self.limit);
        kept.into_bytes()
    }
}
