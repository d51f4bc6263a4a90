//! Signals, as news: the proxy ends in its own time, and a command gets what is meant for it.

use std::thread;

use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use crate::signals;

/// From now on signals come as messages. To be called before the first other thread starts:
/// blocked here, they are blocked in every thread that comes from here. Programs start with
/// nothing blocked.
pub(crate) fn listen() -> mpsc::UnboundedReceiver<Signal> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let signals = signals::heard();
    if signals.thread_block().is_ok() {
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                if sender.send(signal).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
