//! What the host tells whoever measures it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use keyward_process::lock;

#[cfg(feature = "metrics")]
mod facade;
mod families;
mod prometheus;

#[cfg(feature = "metrics")]
pub use facade::MetricsObserver;
pub use prometheus::Metrics;

/// Receives events. All methods do nothing by default. They are called on the thread of a run, never
/// on the way of a credential that is already there.
pub trait Observer: Send + Sync + 'static {
    /// A plugin run ended (ME-01): its label values and how long it took.
    fn ran(&self, _plugin: &str, _code: i32, _status: CallStatus, _took: Duration) {}

    /// A policy decided (ME-04).
    fn judged(&self, _allowed: bool) {}

    /// A credential was asked of its provider, plugin or not, and came or did not.
    fn refreshed(&self, _took: Duration, _came: bool) {}

    /// A credential came; it may be kept until then, `None` being forever.
    fn expires(&self, _at: Option<Timestamp>, _now: Timestamp) {}

    /// A certificate came, or went with its source: the earliest end of all that plugins gave (ME-05).
    fn certificates_end(&self, _earliest: Option<Timestamp>, _now: Timestamp) {}

    /// A certificate was replaced at this age (ME-06).
    fn rotated(&self, _age: Duration) {}

    /// A server rejected a credential (401, or 403 where that is opted in). Several requests with one
    /// credential are several events.
    fn rejected(&self) {}

    /// A certificate came that is not valid now.
    fn invalid_certificate(&self, _plugin: &str) {}

    /// An external signer was asked for a signature, and gave it or did not.
    fn signed(&self, _took: Duration, _came: bool) {}

    /// A run of an image credential provider ended, well or not (ME-07, ME-08). An answer that cannot
    /// be read is not counted as a failure, as in the kubelet.
    fn provided(&self, _provider: &str, _took: Duration, _failed: bool) {}

    /// A configuration of image credential providers is in force, or none (ME-09): its hash, and the
    /// one that was in force before.
    fn configured(&self, _hash: Option<&str>, _before: Option<&str>) {}
}

/// Ignores every event.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopObserver;

impl Observer for NoopObserver {}

/// `call_status` of client-go's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallStatus {
    /// The plugin exited with code 0, whatever it printed (ME-03).
    NoError,
    /// The plugin exited with another code, or was killed (code -1).
    PluginExecutionError,
    /// There is no such program (code 1).
    PluginNotFoundError,
    /// The plugin could not be started for any other reason (code 1); client-go says "not found"
    /// here (D8).
    ClientInternalError,
}

impl CallStatus {
    /// The label's value.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoError => "no_error",
            Self::PluginExecutionError => "plugin_execution_error",
            Self::PluginNotFoundError => "plugin_not_found_error",
            Self::ClientInternalError => "client_internal_error",
        }
    }
}

/// The ends of all certificates that the sources of one registry hold.
pub(crate) struct Ends {
    pub(crate) observer: Arc<dyn Observer>,
    known: Mutex<HashMap<u64, Timestamp>>,
}

impl Ends {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Self {
        Self { observer, known: Mutex::default() }
    }

    /// What the source `id` has now; a source without a certificate does not count.
    pub(crate) fn set(&self, id: u64, end: Option<Timestamp>, now: Timestamp) {
        let mut known = lock(&self.known);
        let before = match end {
            Some(end) => known.insert(id, end),
            None => known.remove(&id),
        };
        if before != end {
            self.observer.certificates_end(known.values().min().copied(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Record(Mutex<Vec<Option<i64>>>);

    impl Observer for Record {
        fn certificates_end(&self, earliest: Option<Timestamp>, _now: Timestamp) {
            self.0.lock().expect("whole").push(earliest.map(Timestamp::as_second));
        }
    }

    #[test]
    fn the_earliest_end_counts_and_sources_without_one_do_not() {
        let record = Arc::new(Record::default());
        let ends = Ends::new(Arc::clone(&record) as _);
        let at = |second| Timestamp::from_second(second).ok();
        for (id, end) in [(1, at(50)), (2, at(30)), (3, None), (2, at(90)), (1, None), (2, None)] {
            ends.set(id, end, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(
            *record.0.lock().expect("whole"),
            [Some(50), Some(30), Some(50), Some(90), None]
        );
    }
}
