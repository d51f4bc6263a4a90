//! How long connections are kept, and how they end.

use std::sync::{Arc, PoisonError, Weak};

use tokio::{runtime::Handle, task::AbortHandle};

use super::{Shared, Single};

/// Idle HTTP/1.1 connections that are kept; client-go keeps as many.
const IDLE: usize = 25;

impl Shared {
    /// Keeps a connection for whoever comes next, unless there are enough.
    pub(super) fn keep(self: &Arc<Self>, single: Single) {
        let mut state = self.lock();
        if state.idle.len() < IDLE {
            state.idle.push(single);
        }
        drop(state);
        self.changed.notify_waiters();
        self.sweep();
    }

    /// Remembers how a connection is cut, where that may be needed.
    pub(super) fn note(&self, cut: AbortHandle) {
        if self.settings.drain.is_some() {
            let mut state = self.lock();
            state.cuts.retain(|(_, cut)| !cut.is_finished());
            state.cuts.push((Handle::current(), cut));
        }
    }

    /// Closes what has been idle for too long, for as long as there is anything to close.
    pub(super) fn sweep(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().sweeping, true) {
            return;
        }
        let sweeper = Sweeper(Arc::downgrade(self));
        let idle = self.settings.idle;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(idle / 2).await;
                let Some(shared) = sweeper.0.upgrade() else {
                    return;
                };
                let mut state = shared.lock();
                state
                    .idle
                    .retain(|single| single.since.elapsed() < idle && !single.sender.is_closed());
                state.many.retain(|many| {
                    !many.sender.is_closed() && many.load.idle().is_none_or(|since| since < idle)
                });
                if state.idle.is_empty() && state.many.is_empty() {
                    drop(state);
                    return;
                }
            }
        });
    }
}

/// Says that nobody sweeps any more, also when a runtime is shut down under the sweeper.
struct Sweeper(Weak<Shared>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lock().sweeping = false;
        }
    }
}

/// The senders go with the state, and hyper drains each connection. What must not go on for ever
/// is cut after the time set for that.
impl Drop for Shared {
    fn drop(&mut self) {
        let Some(limit) = self.settings.drain else {
            return;
        };
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (runtime, cut) in state.cuts.drain(..) {
            if !cut.is_finished() {
                runtime.spawn(async move {
                    tokio::time::sleep(limit).await;
                    cut.abort();
                });
            }
        }
    }
}
