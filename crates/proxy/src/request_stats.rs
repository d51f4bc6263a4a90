//! Counters of requests: latencies, upgrades, refusals, and whether any is open.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::prometheus::Histogram;

/// How often idleness is checked, at most.
const LOOK: Duration = Duration::from_millis(100);

/// The counters of one context.
#[derive(Debug)]
pub(crate) struct RequestStats {
    codes: Box<[AtomicU64]>,
    pub(crate) latency: Histogram,
    pub(crate) open: AtomicU64,
    pub(crate) websocket: AtomicU64,
    pub(crate) spdy: AtomicU64,
    pub(crate) tunnels: AtomicU64,
    refused: Mutex<BTreeMap<&'static str, u64>>,
    activity: Arc<Activity>,
}

impl RequestStats {
    pub(crate) fn new(activity: Arc<Activity>) -> Self {
        Self {
            codes: (0..1000).map(|_| AtomicU64::new(0)).collect(),
            latency: Histogram::default(),
            open: AtomicU64::new(0),
            websocket: AtomicU64::new(0),
            spdy: AtomicU64::new(0),
            tunnels: AtomicU64::new(0),
            refused: Mutex::default(),
            activity,
        }
    }

    /// The head of a response has arrived.
    pub(crate) fn answered(&self, code: StatusCode, took: Duration) {
        if let Some(counter) = self.codes.get(usize::from(code.as_u16())) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.latency.record(took);
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        *self.refusals().entry(reason).or_default() += 1;
    }

    /// How many responses had each code.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (usize, u64)> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.codes.iter().map(read).enumerate().filter(|(_, count)| *count > 0)
    }

    pub(crate) fn refusals(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

    fn enter(&self) {
        self.open_requests.fetch_add(1, Ordering::AcqRel);
    }

    fn leave(&self) {
        if self.open_requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.left.store(now(), Ordering::Relaxed);
        }
    }
}

/// A request from its head to the end of its response, or a tunnel.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    stats: Arc<RequestStats>,
    /// The activity of its connection.
    connection: Arc<Activity>,
}

impl OpenRequest {
    pub(crate) fn begin(stats: &Arc<RequestStats>, connection: &Arc<Activity>) -> Self {
        stats.open.fetch_add(1, Ordering::Relaxed);
        stats.activity.enter();
        connection.enter();
        Self { stats: stats.clone(), connection: connection.clone() }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.stats.open.fetch_sub(1, Ordering::Relaxed);
        self.stats.activity.leave();
        self.connection.leave();
    }
}

fn now() -> u64 {
    u64::try_from(SystemClock.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_idle_while_a_request_is_open() {
        let activity = Activity::new();
        let stats = Arc::new(RequestStats::new(activity.clone()));
        let connection = Activity::new();
        let open = OpenRequest::begin(&stats, &connection);
        assert_eq!((activity.open_requests(), activity.idle()), (1, Duration::ZERO));
        assert_eq!((connection.open_requests(), connection.idle()), (1, Duration::ZERO));
        drop(open);
        assert_eq!((activity.open_requests(), connection.open_requests()), (0, 0));
    }
}
