//! The signals that ask a process to end, and what it does first.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal, raise};

use crate::{harden, lock, runner};

/// How long programs may take to die. They are killed, so only the system can be slow.
const LIMIT: Duration = Duration::from_secs(5);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static LAST_ACTS: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

/// From now on a signal that asks us to end lets the runner end its programs and restore the terminal
/// before it has its way. To be called before the first other thread starts.
pub fn watch() {
    let signals = heard();
    // Blocked here, and so in every thread that comes from here: they wait for the one below.
    // Programs start with nothing blocked.
    if signals.thread_block().is_ok() {
        thread::spawn(move || end(&signals));
    }
}

/// Registers an action for the end by a signal: nothing is dropped then. The last one to be
/// registered is the first to be done, as with values that are dropped.
pub fn before_leaving(act: impl FnOnce() + Send + 'static) {
    lock(&LAST_ACTS).push(Box::new(act));
}

fn end(signals: &SigSet) {
    let Ok(signal) = signals.wait() else { return };
    INTERRUPTED.store(true, Ordering::SeqCst);
    runner::shut_down(LIMIT);
    for act in lock(&LAST_ACTS).drain(..).rev() {
        act();
    }
    // No core file of a process that has held secrets.
    harden::keep_memory_private();
    // The shell sees which signal it was, as without our handler.
    let _ = raise(signal);
    let _ = signals.thread_unblock();
    // The signal was ignored, which some systems do not reveal; the programs are stopped anyway.
    std::process::exit(128 + signal as i32);
}

/// Exits without a report after a signal: its sender knows why. Returns if there was none.
pub fn leave_if_interrupted() {
    while INTERRUPTED.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// The signals that ask us to end, or are a person's word to the command in the foreground, less
/// those that whoever started us wants ignored: `nohup`, or a script that put us into the
/// background.
pub fn heard() -> SigSet {
    let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    all.into_iter().filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0).collect()
}

/// Calls `stop` when a signal asks us to end; a hang-up does not. For a server that ends by itself
/// then. To be called before the first other thread starts: the signals are blocked in every thread
/// that comes after.
pub fn on_stop(stop: impl Fn() + Send + 'static) {
    let mut signals = heard();
    let _ = signals.thread_block();
    signals.remove(Signal::SIGHUP);
    thread::spawn(move || {
        while signals.wait().is_ok() {
            stop();
        }
    });
}

/// The mask of ignored signals, as Linux reports it.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
