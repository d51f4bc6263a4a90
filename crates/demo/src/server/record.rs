//! What the server saw: every request, and counters.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, Method, StatusCode, Uri, Version};

use super::users::Proof;

/// One request as the server saw it.
///
/// The headers are kept unchanged, including credentials, because tests check them. `Debug` hides
/// the credential.
#[derive(Debug, Clone)]
pub struct Record {
    /// The number of the request's connection, counted from one.
    pub connection: u64,
    /// HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// TLS 1.2 or 1.3.
    pub tls: Option<rustls::ProtocolVersion>,
    /// Whether the connection resumed an earlier TLS session.
    pub resumed: bool,
    /// The server name that the client requested.
    pub server_name: Option<String>,
    /// The request's method.
    pub method: Method,
    /// The request's path and query.
    pub uri: Uri,
    /// The request's headers.
    pub headers: HeaderMap,
    /// The serial number of the connection's client certificate.
    pub serial: Option<u64>,
    /// The user it was authenticated as, if any.
    pub user: Option<String>,
    /// The kind of credential that proved it.
    pub proof: Option<Proof>,
    /// The status of the answer; `None` if the connection was cut instead.
    pub status: Option<StatusCode>,
}

impl Record {
    /// The value of a header, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Keeps the last requests.
#[derive(Debug)]
pub struct Recorder {
    limit: usize,
    records: Mutex<VecDeque<Record>>,
}

impl Recorder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, records: Mutex::default() }
    }

    /// All records, oldest first.
    pub fn all(&self) -> Vec<Record> {
        self.records().iter().cloned().collect()
    }

    /// The records of this path (without its query), oldest first.
    pub fn of(&self, path: &str) -> Vec<Record> {
        self.records().iter().filter(|record| record.uri.path() == path).cloned().collect()
    }

    /// The latest record.
    pub fn last(&self) -> Option<Record> {
        self.records().back().cloned()
    }

    /// Forgets all records.
    pub fn clear(&self) {
        self.records().clear();
    }

    pub(crate) fn wanted(&self) -> bool {
        self.limit > 0
    }

    /// Keeps a record, if any is [wanted](Self::wanted).
    pub(crate) fn push(&self, record: Record) {
        let mut records = self.records();
        if records.len() >= self.limit {
            records.pop_front();
        }
        records.push_back(record);
    }

    fn records(&self) -> MutexGuard<'_, VecDeque<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counters since the start of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// TCP connections accepted.
    pub connections: u64,
    /// Open connections, including upgraded ones.
    pub open: u64,
    /// Successful TLS handshakes, including resumed ones.
    pub handshakes: u64,
    /// TLS handshakes that resumed an earlier session.
    pub resumed: u64,
    /// TLS handshakes that failed.
    pub failed: u64,
    /// Requests received.
    pub requests: u64,
    /// Requests without an answer yet.
    pub waiting: u64,
    /// Answers by status code.
    pub statuses: BTreeMap<u16, u64>,
}

impl Counts {
    /// How many answers had this status.
    pub fn status(&self, status: u16) -> u64 {
        self.statuses.get(&status).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) waiting: AtomicU64,
    statuses: Box<[AtomicU64]>,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self { statuses: (0..1000).map(|_| AtomicU64::default()).collect(), ..Self::default() }
    }

    pub(crate) fn answered(&self, status: StatusCode) {
        up(&self.statuses[usize::from(status.as_u16())]);
    }

    pub(crate) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            connections: read(&self.connections),
            open: read(&self.open),
            handshakes: read(&self.handshakes),
            resumed: read(&self.resumed),
            failed: read(&self.failed),
            requests: read(&self.requests),
            waiting: read(&self.waiting),
            statuses: (0..)
                .zip(&self.statuses)
                .map(|(status, counter)| (status, read(counter)))
                .filter(|(_, count)| *count > 0)
                .collect(),
        }
    }
}

pub(crate) fn up(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn down(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}
