//! Idle connections: how many are kept, for how long, and how they end.

use std::sync::{Arc, PoisonError, Weak};

use tokio::{runtime::Handle, task::AbortHandle};

use super::{Http1, Shared};

/// Idle HTTP/1.1 connections that are kept; client-go keeps as many.
const IDLE: usize = 25;

impl Shared {
    /// Keeps a connection for the next request, unless there are enough.
    pub(super) fn put_back(self: &Arc<Self>, http1: Http1) {
        let mut state = self.lock();
        if state.idle.len() < IDLE {
            state.idle.push(http1);
        }
        drop(state);
        self.changed.notify_waiters();
        self.sweep();
    }

    /// Remembers how to abort a connection, if draining has a limit.
    pub(super) fn track(&self, cut: AbortHandle) {
        if self.lifetimes.drain.is_some() {
            let mut state = self.lock();
            state.cuts.retain(|(_, cut)| !cut.is_finished());
            state.cuts.push((Handle::current(), cut));
        }
    }

    /// Starts the task that closes idle connections, unless it runs. It ends with the last of them.
    pub(super) fn sweep(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().sweeping, true) {
            return;
        }
        let sweeper = Sweeper(Arc::downgrade(self));
        let idle = self.lifetimes.idle;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(idle / 2).await;
                let Some(shared) = sweeper.0.upgrade() else {
                    return;
                };
                let mut state = shared.lock();
                state
                    .idle
                    .retain(|http1| http1.since.elapsed() < idle && !http1.sender.is_closed());
                state.http2.retain(|http2| {
                    !http2.sender.is_closed() && http2.load.idle().is_none_or(|since| since < idle)
                });
                if state.idle.is_empty() && state.http2.is_empty() {
                    drop(state);
                    return;
                }
            }
        });
    }
}

/// Clears the mark of the sweeping task when it ends, also when its runtime is shut down.
struct Sweeper(Weak<Shared>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lock().sweeping = false;
        }
    }
}

/// Dropping the senders makes hyper drain each connection. Those that are still open when the limit for
/// draining is over are aborted.
impl Drop for Shared {
    fn drop(&mut self) {
        let Some(limit) = self.lifetimes.drain else {
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
