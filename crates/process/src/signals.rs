//! The signals that ask a process to end.

use std::thread;

use nix::sys::signal::{SigSet, Signal};

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
