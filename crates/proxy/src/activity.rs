//! Whether requests are open, and since when none is: when a connection is idle, or the whole proxy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keyward_process::clock::{Clock as _, SystemClock};

/// How often idleness is checked, at most.
const LOOK: Duration = Duration::from_millis(100);

/// Whether requests are open in the whole proxy or on one connection, and since when none is.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    open_requests: AtomicU64,
    /// When the last open request ended, in milliseconds of the monotonic clock.
    left: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        let activity = Self::default();
        activity.left.store(now(), Ordering::Relaxed);
        Arc::new(activity)
    }

    pub(crate) fn open_requests(&self) -> u64 {
        self.open_requests.load(Ordering::Acquire)
    }

    /// How long no request has been open.
    pub(crate) fn idle(&self) -> Duration {
        if self.open_requests() > 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(now().saturating_sub(self.left.load(Ordering::Relaxed)))
    }

    /// Returns when no request has been open for this long.
    pub(crate) async fn idle_for(&self, limit: Duration) {
        loop {
            let left = limit.saturating_sub(self.idle());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.max(LOOK)).await;
        }
    }

    pub(crate) fn enter(&self) {
        self.open_requests.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self) {
        if self.open_requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.left.store(now(), Ordering::Relaxed);
        }
    }
}

fn now() -> u64 {
    u64::try_from(SystemClock.elapsed().as_millis()).unwrap_or(u64::MAX)
}
