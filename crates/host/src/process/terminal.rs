//! The terminal's state, put back after a program that had it in its hands.

use std::{
    os::fd::OwnedFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{Mode, OFlags},
    process::getpgrp,
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};

/// Remembers the state of the controlling terminal, if the run is attended and there is one, until
/// the guard is dropped.
pub(super) fn save(attended: bool) -> Option<Guard> {
    if !attended {
        return None;
    }
    let mut saved = lock();
    if let Some(saved) = saved.as_mut() {
        saved.runs += 1;
        return Some(Guard);
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    let state = tcgetattr(&terminal).ok()?;
    *saved = Some(Saved { terminal, state, runs: 1 });
    Some(Guard)
}

/// Restores the terminal when the last attended run is over: the state a second run began with may
/// be the one the first had switched the echo off in.
pub(super) struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let mut saved = lock();
        let Some(last) = saved.as_mut() else { return };
        last.runs -= 1;
        if last.runs == 0 {
            last.restore();
            *saved = None;
        }
    }
}

struct Saved {
    terminal: OwnedFd,
    state: Termios,
    runs: usize,
}

static SAVED: Mutex<Option<Saved>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Saved>> {
    SAVED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Saved {
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
