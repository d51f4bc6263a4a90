//! One client's connection, from the handshake to its end.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{HandshakeKind, ProtocolVersion, ServerConnection, pki_types::UnixTime};
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::TlsAcceptor;

use super::{
    Shared,
    certificate::Certificate,
    record::{down, up},
    serve,
};

/// What a connection has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Continue.
    Serve,
    /// Accept no new requests, finish the open ones.
    Drain,
    /// Close at once.
    Cut,
}

/// What the handshake revealed about a connection.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) tls: Option<ProtocolVersion>,
    pub(crate) resumed: bool,
    pub(crate) server_name: Option<String>,
    /// The serial number of the client's certificate, valid or not.
    pub(crate) serial: Option<u64>,
    /// The certificate, if the authority signed it.
    pub(crate) certificate: Option<Certificate>,
}

/// A connection that lives as long as it is referenced: by the HTTP side, or by an upgrade.
#[derive(Debug)]
pub struct Connection {
    /// The connection's number, counted from one.
    pub id: u64,
    pub(crate) facts: Facts,
    requests: AtomicU64,
    signal: watch::Sender<Signal>,
    _entry: Entry,
}

impl Connection {
    pub(crate) fn drain(&self) {
        raise(&self.signal, Signal::Drain);
    }

    pub(crate) fn cut(&self) {
        raise(&self.signal, Signal::Cut);
    }

    /// Returns when the connection is to be cut.
    pub async fn ended(&self) {
        let mut signal = self.signal.subscribe();
        // `self` holds the sender, so this cannot fail before the signal comes.
        let _ = signal.wait_for(|signal| *signal == Signal::Cut).await;
    }

    /// Counts a request, and returns the new count.
    pub(crate) fn request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    next: AtomicU64,
    open: Mutex<HashMap<u64, watch::Sender<Signal>>>,
    closed: Condvar,
}

impl Connections {
    pub(crate) fn tell_all(&self, signal: Signal) {
        for connection in self.open().values() {
            raise(connection, signal);
        }
    }

    /// Waits until none is open, at most for `limit`. Returns whether none is.
    pub(crate) fn wait_until_none(&self, limit: Duration) -> bool {
        let waited = self.closed.wait_timeout_while(self.open(), limit, |open| !open.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_empty()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, watch::Sender<Signal>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry in the list of open connections, removed on drop.
#[derive(Debug)]
struct Entry {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.connections.open().remove(&self.id);
        down(&self.shared.counters.open);
        self.shared.connections.closed.notify_all();
    }
}

/// Both protocols end alike; only the types differ.
macro_rules! serve_until_told {
    ($serving:expr, $told:expr) => {{
        let mut serving = pin!($serving);
        loop {
            tokio::select! {
                // A client that leaves early is no news.
                _ = serving.as_mut() => break,
                changed = $told.changed() => {
                    let signal = *$told.borrow_and_update();
                    match signal {
                        _ if changed.is_err() => break,
                        Signal::Serve => {}
                        Signal::Drain => serving.as_mut().graceful_shutdown(),
                        Signal::Cut => break,
                    }
                }
            }
        }
    }};
}

/// Serves a connection to its end.
pub(crate) async fn run(shared: Arc<Shared>, stream: TcpStream) {
    up(&shared.counters.connections);
    up(&shared.counters.open);
    let id = shared.connections.next.fetch_add(1, Ordering::Relaxed) + 1;
    let (signal, mut told) = watch::channel(Signal::Serve);
    shared.connections.open().insert(id, signal.clone());
    let entry = Entry { shared: shared.clone(), id };
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(shared.tls());
    let accepted = tokio::select! {
        accepted = acceptor.accept(stream) => accepted,
        _ = told.wait_for(|signal| *signal != Signal::Serve) => return,
    };
    let Ok(stream) = accepted else {
        up(&shared.counters.failed);
        return;
    };
    let (_, session) = stream.get_ref();
    let facts = facts(&shared, session);
    up(&shared.counters.handshakes);
    if facts.resumed {
        up(&shared.counters.resumed);
    }
    let http2 = session.alpn_protocol() == Some(b"h2");
    let connection =
        Arc::new(Connection { id, facts, requests: AtomicU64::new(0), signal, _entry: entry });
    let streams = shared.streams;
    let stream = TokioIo::new(stream);
    let service =
        service_fn(move |request| serve::answer(shared.clone(), connection.clone(), request));
    if http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            // Tests end hundreds of watches at once; that is no attack.
            .max_pending_accept_reset_streams(4096)
            .serve_connection(stream, service);
        serve_until_told!(serving, told);
    } else {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(stream, service)
            .with_upgrades();
        serve_until_told!(serving, told);
    }
}

fn facts(shared: &Shared, session: &ServerConnection) -> Facts {
    let chain = session.peer_certificates().unwrap_or_default();
    let read = chain.first().and_then(|der| Certificate::read(der));
    let trusted = chain.split_first().is_some_and(|(first, rest)| {
        // The chain is checked once per connection and the validity with each request, so check the
        // chain at a time when the certificate is valid.
        let moment = read
            .as_ref()
            .and_then(|certificate| certificate.from.duration_since(std::time::UNIX_EPOCH).ok())
            .map_or_else(UnixTime::now, UnixTime::since_unix_epoch);
        let checked = shared.checker.verify_client_cert(first, rest, moment);
        checked.is_ok()
    });
    Facts {
        tls: session.protocol_version(),
        resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        server_name: session.server_name().map(ToOwned::to_owned),
        serial: read.as_ref().map(|certificate| certificate.serial),
        certificate: read.filter(|_| trusted),
    }
}

/// Signals a connection, unless it already has a stronger signal.
fn raise(sender: &watch::Sender<Signal>, signal: Signal) {
    sender.send_if_modified(|now| {
        let stronger = *now != Signal::Cut && *now != signal;
        if stronger {
            *now = signal;
        }
        stronger
    });
}
