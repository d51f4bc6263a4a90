//! Signals, as news: the proxy ends in its own time, and a command gets what is meant for it.

use std::thread;

use keyward_process::signals;
use nix::sys::signal::{SigSet, Signal};
use tokio::sync::mpsc;

/// A signal that came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// A key pressed at the terminal: all in front of it have got it.
    pub(crate) by_key: bool,
}

/// From now on signals come as messages. To be called before the first other thread starts:
/// blocked here, they are blocked in every thread that comes from here. Programs start with
/// nothing blocked.
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

/// Tells of each signal until nobody wants to know.
#[cfg(target_os = "linux")]
fn tell(signals: &SigSet, mut wanted: impl FnMut(Received) -> bool) {
    /// `SI_KERNEL` of `sigaction(2)`; what a process sends has another code.
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

/// Where nobody tells who sent a signal, it was the terminal.
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
