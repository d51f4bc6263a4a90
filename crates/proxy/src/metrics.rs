//! Counters of the whole proxy: connections, rejected clients, and the host's events about plugins.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use jiff::Timestamp;
use keyward_protocol::prometheus::{Family, Text};

const BUILD: Family = Family::gauge("keyward_build_info", "the version of Keyward");
const CONNECTIONS: Family =
    Family::counter("keyward_proxy_connections_total", "connections of clients");
const REJECTED: Family = Family::counter(
    "keyward_proxy_rejected_connections_total",
    "connections without a valid client certificate, or with a failed or late handshake",
);

/// Counters of one proxy.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// The host's events.
    pub(crate) host: Arc<keyward_host::Metrics>,
    connections: AtomicU64,
    rejected: AtomicU64,
}

impl Metrics {
    /// A client connected.
    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A client was rejected.
    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn write(&self, text: &mut Text, now: Timestamp) {
        text.family(BUILD).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.host.write(text, now);
        for (family, count) in [(CONNECTIONS, &self.connections), (REJECTED, &self.rejected)] {
            text.family(family).sample(&[], count.load(Ordering::Relaxed));
        }
    }
}
