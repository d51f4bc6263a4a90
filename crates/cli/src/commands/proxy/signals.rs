//! Turns signals into messages: the proxy shuts down gracefully, and a command gets what is meant
//! for it.

use std::thread;

use keyward_process::signals;
use nix::sys::signal::{SigSet, Signal};
use tokio::sync::mpsc;

/// A received signal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// Whether it was a key at the terminal: then the whole foreground group has got it.
    pub(crate) by_key: bool,
}

/// Delivers signals as messages from now on. Must be called before any other thread starts, because
/// threads inherit the blocked signals. Child programs start with nothing blocked.
pub(crate) fn listen() -> mpsc::UnboundedReceiver<Received> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let signals = signals::heard();
    if signals.thread_block().is_ok() {
        thread::spawn(move || {
            tell(&signals, |received| sender.send(received).is_ok());
        });
    }
    receiver
}

/// Reports each signal until it is no longer wanted.
#[cfg(target_os = "linux")]
fn tell(signals: &SigSet, mut wanted: impl FnMut(Received) -> bool) {
    /// `SI_KERNEL` of `sigaction(2)`; a signal from a process has another code.
    const SYSTEM: i32 = 0x80;
    let Ok(news) = nix::sys::signalfd::SignalFd::new(signals) else { return };
    while let Ok(Some(info)) = news.read_signal() {
        let number = i32::try_from(info.ssi_signo).unwrap_or_default();
        let Ok(signal) = Signal::try_from(number) else { continue };
        if !wanted(Received { signal, by_key: is_key(signal) && info.ssi_code == SYSTEM }) {
            return;
        }
    }
}

/// Reports each signal as from the terminal: this system does not say who sent it.
#[cfg(not(target_os = "linux"))]
fn tell(signals: &SigSet, mut wanted: impl FnMut(Received) -> bool) {
    while let Ok(signal) = signals.wait() {
        if !wanted(Received { signal, by_key: is_key(signal) }) {
            return;
        }
    }
}

fn is_key(signal: Signal) -> bool {
    matches!(signal, Signal::SIGINT | Signal::SIGQUIT)
}
