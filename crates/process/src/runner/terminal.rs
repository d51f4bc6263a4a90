//! The terminal in the hands of one program at a time, and its state put back afterwards.

use std::{collections::VecDeque, os::fd::OwnedFd, sync::Mutex};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::Errno,
    process::getpgrp,
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};

use super::{Cancel, Failure, Left, cancel::Listener};
use crate::lock;

/// Waits for the turn of an attended run and remembers the state of the controlling terminal, if
/// there is one, until the guard is dropped. An unattended run waits for nobody.
///
/// Two programs that ask a person at once cannot be told apart, and what is typed goes to either.
/// The wait is no part of a program's budget: it has not begun. It ends with the budget of whoever
/// is before us, or when our own run is cancelled.
pub(super) fn take(attended: bool, listener: &Listener) -> Result<Option<Guard>, Failure> {
    if !attended {
        return Ok(None);
    }
    wait(listener)?;
    Ok(Some(Guard { saved: Saved::now() }))
}

/// Restores the terminal, then lets the next one have it.
pub(super) struct Guard {
    saved: Option<Saved>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(saved) = &self.saved {
            saved.restore();
        }
        lock(&TURNS).pass_on();
    }
}

/// Who has the terminal, and who is next.
struct Turns {
    taken: bool,
    /// In order. Whoever is taken off the front has the terminal; the `Cancel` wakes them.
    waiting: VecDeque<(u64, Cancel)>,
    /// The number for the next who waits.
    next: u64,
}

static TURNS: Mutex<Turns> = Mutex::new(Turns { taken: false, waiting: VecDeque::new(), next: 0 });

impl Turns {
    fn pass_on(&mut self) {
        match self.waiting.pop_front() {
            Some((_, turn)) => turn.cancel(),
            None => self.taken = false,
        }
    }
}

fn wait(listener: &Listener) -> Result<(), Failure> {
    let turn = Cancel::default();
    let own = turn.listen().map_err(Failure::System)?;
    let mut turns = lock(&TURNS);
    if !turns.taken {
        turns.taken = true;
        return Ok(());
    }
    let number = turns.next;
    turns.next += 1;
    turns.waiting.push_back((number, turn));
    drop(turns);
    loop {
        let mut fds =
            [listener.wakeup(), own.wakeup()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // One that was cancelled before we listened wakes nobody.
        let woken = if listener.is_cancelled() { Ok(0) } else { poll(&mut fds, None) };
        let failure = match woken {
            Ok(_) if listener.is_cancelled() => Failure::Cancelled(Left::default()),
            Ok(_) | Err(Errno::INTR) => {
                if lock(&TURNS).waiting.iter().all(|(waiting, _)| *waiting != number) {
                    return Ok(());
                }
                continue;
            }
            Err(errno) => Failure::System(errno.into()),
        };
        let mut turns = lock(&TURNS);
        match turns.waiting.iter().position(|(waiting, _)| *waiting == number) {
            Some(place) => drop(turns.waiting.remove(place)),
            // It was given to us meanwhile.
            None => turns.pass_on(),
        }
        return Err(failure);
    }
}

struct Saved {
    terminal: OwnedFd,
    state: Termios,
}

impl Saved {
    fn now() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
        let state = tcgetattr(&terminal).ok()?;
        Some(Self { terminal, state })
    }

    fn restore(&self) {
        // From the background the system would stop us for this; whoever is in the foreground has
        // set the terminal as they want it.
        if !tcgetpgrp(&self.terminal).is_ok_and(|foreground| foreground == getpgrp()) {
            return;
        }
        if let Err(error) = tcsetattr(&self.terminal, OptionalActions::Now, &self.state) {
            tracing::warn!(%error, "the terminal could not be restored");
        }
    }
}
