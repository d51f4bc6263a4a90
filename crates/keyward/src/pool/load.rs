//! How many streams an HTTP/2 connection carries and may carry.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Stands for a limit that the peer has not sent yet.
const UNKNOWN: usize = 0;

/// Open streams of a connection, and how many its peer allows.
#[derive(Debug)]
pub(super) struct Load {
    open: AtomicUsize,
    allowed: AtomicUsize,
    born: Instant,
    /// When the last stream ended, in milliseconds after `born`.
    left: AtomicU64,
}

/// A stream's slot on a connection, freed on drop.
#[derive(Debug)]
pub(crate) struct StreamSlot(Arc<Load>);

impl Load {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            open: AtomicUsize::new(0),
            allowed: AtomicUsize::new(UNKNOWN),
            born: Instant::now(),
            left: AtomicU64::new(0),
        })
    }

    /// Sets how many streams the peer allows. Zero counts as one: then a stream waits on the
    /// connection, but a pool without any room would open connections forever.
    pub(super) fn allow(&self, streams: usize) {
        self.allowed.store(streams.max(1), Ordering::Relaxed);
    }

    pub(super) fn is_known(&self) -> bool {
        self.allowed.load(Ordering::Acquire) != UNKNOWN
    }

    /// Takes a slot, if there is room. Before the peer has sent its limit there is room for one stream:
    /// the first request need not wait, a burst of them must.
    pub(super) fn take(self: &Arc<Self>) -> Option<StreamSlot> {
        let allowed = self.allowed.load(Ordering::Acquire).max(1);
        self.open
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |open| {
                (open < allowed).then_some(open + 1)
            })
            .ok()
            .map(|_| StreamSlot(self.clone()))
    }

    /// Whether a stream has been opened and closed.
    pub(super) fn is_used(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// For how long no stream has been open; `None` while one is.
    pub(super) fn idle(&self) -> Option<Duration> {
        if self.open.load(Ordering::Acquire) > 0 {
            return None;
        }
        let left = Duration::from_millis(self.left.load(Ordering::Relaxed));
        Some(self.born.elapsed().saturating_sub(left))
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let now = u64::try_from(self.0.born.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.0.left.store(now.max(1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn one_stream_may_go_ahead_of_the_peers_settings() {
        let load = Load::new();
        let first = load.take().unwrap();
        assert!(load.take().is_none());
        load.allow(2);
        let second = load.take().unwrap();
        assert!(load.take().is_none());
        drop((first, second));
        assert!(load.take().is_some());
    }

    #[test]
    fn a_peer_that_allows_no_stream_still_gets_one() {
        let load = Load::new();
        load.allow(0);
        assert!(load.is_known());
        assert!(load.take().is_some());
    }

    #[test]
    fn a_connection_with_a_stream_is_not_idle() {
        let load = Load::new();
        let slot = load.take().unwrap();
        assert_eq!(load.idle(), None);
        drop(slot);
        assert!(load.idle().is_some());
    }
}
