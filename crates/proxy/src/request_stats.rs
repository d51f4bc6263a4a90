//! Counters of requests: latencies, upgrades, refusals, and which streams are open.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use jiff::Timestamp;
use keyward_process::{
    clock::{Clock, SystemClock},
    lock,
};
use keyward_protocol::prometheus::Histogram;

use crate::activity::Activity;

/// The counters of one context.
#[derive(Debug)]
pub(crate) struct RequestStats {
    codes: Box<[AtomicU64]>,
    pub(crate) latency: Histogram,
    pub(crate) open: AtomicU64,
    pub(crate) websocket: AtomicU64,
    pub(crate) spdy: AtomicU64,
    pub(crate) tunnels: AtomicU64,
    streams: Mutex<Streams>,
    pub(crate) refused: Mutex<BTreeMap<&'static str, u64>>,
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
            streams: Mutex::default(),
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
        *lock(&self.refused).entry(reason).or_default() += 1;
    }

    /// How many responses had each code.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (usize, u64)> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.codes.iter().map(read).enumerate().filter(|(_, count)| *count > 0)
    }

    /// The streams that were opened last, the newest first.
    pub(crate) fn streams(&self, most: usize) -> Vec<Stream> {
        lock(&self.streams).open.values().rev().take(most).cloned().collect()
    }
}

/// A request that lasts, such as a watch. Other requests are counted, but nothing is kept of them.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// The protocol after an upgrade, or `watch` or `log`.
    pub(crate) kind: &'static str,
    /// Without the query, which contains the words of commands.
    pub(crate) path: String,
    pub(crate) since: Timestamp,
}

#[derive(Debug, Default)]
struct Streams {
    open: BTreeMap<u64, Stream>,
    last: u64,
}

/// A request from its head to the end of its response, or a tunnel.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    stats: Arc<RequestStats>,
    /// The activity of its connection.
    connection: Arc<Activity>,
    /// The number among the streams, if the request is one.
    stream: Option<u64>,
}

impl OpenRequest {
    pub(crate) fn begin(stats: &Arc<RequestStats>, connection: &Arc<Activity>) -> Self {
        stats.open.fetch_add(1, Ordering::Relaxed);
        stats.activity.enter();
        connection.enter();
        Self { stats: stats.clone(), connection: connection.clone(), stream: None }
    }

    /// Lists the request among the streams until it ends.
    pub(crate) fn list(&mut self, kind: &'static str, path: &str) {
        let stream = Stream { kind, path: path.to_owned(), since: SystemClock.now() };
        let mut streams = lock(&self.stats.streams);
        streams.last += 1;
        let number = streams.last;
        streams.open.insert(number, stream);
        self.stream = Some(number);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(number) = self.stream {
            lock(&self.stats.streams).open.remove(&number);
        }
        self.stats.open.fetch_sub(1, Ordering::Relaxed);
        self.stats.activity.leave();
        self.connection.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_idle_while_a_request_is_open() {
        let activity = Activity::new();
        let stats = Arc::new(RequestStats::new(activity.clone()));
        let connection = Activity::new();
        let mut open = OpenRequest::begin(&stats, &connection);
        open.list("watch", "/api/v1/pods");
        let listed = |stream: &Stream| (stream.kind, stream.path.clone());
        let expected = [("watch", "/api/v1/pods".to_owned())];
        assert_eq!(stats.streams(9).iter().map(listed).collect::<Vec<_>>(), expected);
        assert_eq!((activity.open_requests(), activity.idle()), (1, Duration::ZERO));
        assert_eq!((connection.open_requests(), connection.idle()), (1, Duration::ZERO));
        drop(open);
        assert_eq!((activity.open_requests(), connection.open_requests()), (0, 0));
        assert!(stats.streams(9).is_empty());
    }
}
