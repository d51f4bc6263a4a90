//! How a connection came about, phase by phase.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyward_process::lock;
use rustls::ClientConnection;
use tokio::time::Instant;

use super::Proxy;
use crate::tls::{self, Rejected, Rejection};

/// Records the last connection attempt of a client. Clones share one record; the default records
/// nothing.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Mutex<Record>>>);

/// The last connection attempt. A phase that was not reached, or that failed, is `None`; the others
/// have the time they took.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Trace {
    /// The proxy on the way, without its login. The first two phases are about it then.
    pub proxy: Option<String>,
    /// The name's addresses.
    pub resolved: Option<(Vec<SocketAddr>, Duration)>,
    /// The address that accepted the connection.
    pub connected: Option<(SocketAddr, Duration)>,
    /// The proxy did not accept the login, or wants one.
    pub login_rejected: bool,
    /// The proxy opened a tunnel to the server.
    pub tunnelled: Option<Duration>,
    /// The TLS handshake with the server.
    pub secured: Option<(Secured, Duration)>,
    /// Why the server's certificate was rejected, and the certificate in DER.
    pub rejected: Option<(Rejection, Vec<u8>)>,
}

/// A finished TLS handshake.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Secured {
    /// The version of TLS, such as `TLSv1_3`.
    pub version: String,
    /// The server's certificate in DER.
    pub certificate: Vec<u8>,
}

#[derive(Debug)]
struct Record {
    trace: Trace,
    phase: Instant,
}

impl Tracer {
    /// A tracer with an empty record.
    #[must_use]
    pub fn recording() -> Self {
        let record = Record { trace: Trace::default(), phase: Instant::now() };
        Self(Some(Arc::new(Mutex::new(record))))
    }

    /// The record of the last attempt.
    pub fn trace(&self) -> Trace {
        self.0.as_ref().map(|record| lock(record).trace.clone()).unwrap_or_default()
    }

    pub(super) fn begin(&self, proxy: Option<&Proxy>) {
        self.note(|trace, _| {
            *trace = Trace { proxy: proxy.map(ToString::to_string), ..Trace::default() };
        });
    }

    pub(super) fn resolved(&self, addresses: &VecDeque<SocketAddr>) {
        self.note(|trace, took| {
            trace.resolved = Some((addresses.iter().copied().collect(), took));
        });
    }

    pub(super) fn connected(&self, address: io::Result<SocketAddr>) {
        self.note(|trace, took| trace.connected = address.ok().map(|address| (address, took)));
    }

    pub(super) fn login_rejected(&self) {
        self.note(|trace, _| trace.login_rejected = true);
    }

    pub(super) fn tunnelled(&self) {
        self.note(|trace, took| trace.tunnelled = Some(took));
    }

    pub(super) fn secured(&self, tls: &ClientConnection) {
        self.note(|trace, took| {
            let version = tls.protocol_version().map(|version| format!("{version:?}"));
            let certificate = tls.peer_certificates().and_then(<[_]>::first);
            let secured = Secured {
                version: version.unwrap_or_default(),
                certificate: certificate.map(|der| der.to_vec()).unwrap_or_default(),
            };
            trace.secured = Some((secured, took));
        });
    }

    pub(super) fn refused(&self, error: &io::Error) {
        let rejection = tls::rejection(error);
        let rejected = rejection.as_ref().and_then(|error| error.downcast_ref::<Rejected>());
        if let Some(Rejected { kind, certificate, .. }) = rejected {
            self.note(|trace, _| trace.rejected = Some((*kind, certificate.clone())));
        }
    }

    /// Ends a phase, with the time since the last one ended.
    fn note(&self, end: impl FnOnce(&mut Trace, Duration)) {
        if let Some(record) = &self.0 {
            let mut record = lock(record);
            let took = record.phase.elapsed();
            end(&mut record.trace, took);
            record.phase = Instant::now();
        }
    }
}
