//! The listener: TLS with a client certificate, then HTTP/2 or HTTP/1.1.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use http::uri::Scheme;
use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use keyward::tls::WallClock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::{mpsc::UnboundedReceiver, watch},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    activity::Activity,
    connection_limit::ConnectionLimit,
    context::{ServedContext, ServedContexts},
    forward::{Access, forward},
    gate::{Allowed, Gate},
    grants::{self, Grant, Grants},
    metrics::Metrics,
    socket::Socket,
};

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to hear why its handshake failed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How many handshakes may be pending. One more, and the oldest is dropped: a handshake takes
/// milliseconds, and silent clients must not keep others out.
const HANDSHAKES: usize = 256;

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// A client that reads slowly must not stall other streams of its connection.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 1 << 20;
const STREAMS: u32 = 1000;
const HEADERS: u32 = 256 * 1024;

/// How much of an unread response is buffered, for each stream.
const SEND_BUFFER: usize = 64 * 1024;

/// The read buffer of an HTTP/1.1 connection, which must hold a request's head, and the buffer for
/// an unread response.
const BUFFER: usize = 128 * 1024;

/// How long an idle connection is kept: the limit for the head of an HTTP/1.1 request, including
/// the wait for its first byte, and for the next HTTP/2 request when none is open.
const IDLE: Duration = Duration::from_secs(30);

/// How long an HTTP/2 client may take to close its idle connection when told to.
const FAREWELL: Duration = Duration::from_secs(5);

/// How often an HTTP/1.1 client is checked. hyper reads nothing while it answers one request and
/// has the next one already, and would not notice that the client has left.
const LOOK: Duration = Duration::from_secs(5);

/// The answer to a client that speaks HTTP without TLS, as in Go's servers.
const PLAIN: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    keyward proxy: a plain HTTP request was sent to a TLS port\n";

/// What the listeners of all contexts share.
pub(crate) struct Acceptor {
    tls: TlsAcceptor,
    contexts: Arc<ServedContexts>,
    grants: Grants,
    metrics: Arc<Metrics>,
    handshakes: ConnectionLimit,
}

/// The listener of one context.
pub(crate) struct Listener {
    socket: TcpListener,
    gate: Arc<Gate>,
    pub(crate) context: Arc<ServedContext>,
}

impl Listener {
    /// Listens for the clients of a context, who call it by these names.
    pub(crate) fn new(
        socket: std::net::TcpListener,
        names: Vec<String>,
        allowed: Allowed,
        context: Arc<ServedContext>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        #[cfg(target_os = "linux")]
        if socket.local_addr()?.ip().is_loopback() {
            keyward_process::sockets::send_unpaced(&socket);
        }
        let gate = Arc::new(Gate { names, scheme: Scheme::HTTPS, allowed });
        Ok(Self { socket: TcpListener::from_std(socket)?, gate, context })
    }
}

impl Acceptor {
    /// Admits clients with certificates of the authority `clients`, and those of grants.
    pub(crate) fn new(
        clients: &CertificateDer<'static>,
        identity: (CertificateDer<'static>, PrivateKeyDer<'static>),
        (contexts, grants): (Arc<ServedContexts>, Grants),
        metrics: Arc<Metrics>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            tls: Arc::new(settings(clients, identity, grants.clone())?).into(),
            contexts,
            grants,
            metrics,
            handshakes: ConnectionLimit::new(HANDSHAKES),
        })
    }

    /// The context of the client's certificate, and the grant that it belongs to.
    fn client(
        &self,
        stream: &TlsStream<Socket>,
    ) -> Option<(Arc<ServedContext>, Option<Arc<Grant>>)> {
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates()?.first()?;
        if let Some(context) = self.contexts.of(certificate) {
            return Some((context, None));
        }
        let grant = self.grants.of_certificate(certificate)?;
        Some((self.contexts.named(&grant.stored.context)?, Some(grant)))
    }
}

fn settings(
    clients: &CertificateDer<'static>,
    (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
    grants: Grants,
) -> Result<ServerConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(clients.clone())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut settings = ServerConfig::builder_with_details(provider, Arc::new(WallClock))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(grants::verifier(verifier, grants))
        .with_single_cert(vec![certificate], key)?;
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Few clients reconnect, and without tickets no earlier handshake has a secret to lose.
    settings.session_storage = Arc::new(NoServerSessionStorage {});
    settings.send_tls13_tickets = 0;
    Ok(settings)
}

/// Returns when the shutdown has begun: no new connections are accepted, and open requests are finished.
async fn begun(mut shutdown: watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|begun| *begun).await;
}

/// Accepts connections until the end, then waits for open requests. Closes `listening` when it no
/// longer accepts any.
pub(crate) async fn serve(
    acceptor: Arc<Acceptor>,
    listeners: Vec<Listener>,
    mut more: UnboundedReceiver<Listener>,
    shutdown: watch::Receiver<bool>,
    listening: watch::Sender<()>,
) {
    let listening = Arc::new(listening);
    let mut all = JoinSet::new();
    let start = |listener| accept(acceptor.clone(), listener, shutdown.clone(), listening.clone());
    for listener in listeners {
        all.spawn(start(listener));
    }
    let mut ends = pin!(begun(shutdown.clone()));
    loop {
        tokio::select! {
            () = &mut ends => break,
            Some(listener) = more.recv() => {
                all.spawn(start(listener));
            }
            Some(_) = all.join_next() => {}
        }
    }
    drop((more, listening));
    while all.join_next().await.is_some() {}
}

/// Accepts the clients of one context.
async fn accept(
    acceptor: Arc<Acceptor>,
    listener: Listener,
    shutdown: watch::Receiver<bool>,
    listening: Arc<watch::Sender<()>>,
) {
    let Listener { socket, gate, context } = listener;
    let mut connections = JoinSet::new();
    let mut draining = pin!(begun(shutdown.clone()));
    loop {
        tokio::select! {
            biased;
            () = &mut draining => break,
            // At once, not with the next client: until then the memory of an ended connection is
            // kept.
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => {
                    let here = (context.clone(), gate.clone());
                    connections.spawn(connect(acceptor.clone(), here, stream, peer, shutdown.clone()));
                }
                Err(error) => {
                    // Out of descriptors, or the client has left already: the next one may work.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
        }
    }
    drop((socket, listening));
    while connections.join_next().await.is_some() {}
}

/// Serves one client on the port of a context.
async fn connect(
    acceptor: Arc<Acceptor>,
    (here, gate): (Arc<ServedContext>, Arc<Gate>),
    stream: TcpStream,
    peer: SocketAddr,
    shutdown: watch::Receiver<bool>,
) {
    acceptor.metrics.connection();
    let leave = acceptor.handshakes.enter();
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(HANDSHAKE_TIMEOUT, greet(&acceptor, stream)) => greeted,
        _ = leave => {
            acceptor.metrics.rejected();
            tracing::warn!(%peer, "dropped a client: too many pending handshakes");
            return;
        }
        // Before the handshake nothing is lost by closing.
        () = begun(shutdown.clone()) => return,
    };
    let stream = match greeted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            acceptor.metrics.rejected();
            tracing::info!(%peer, %error, "rejected a client");
            return;
        }
        Err(_) => {
            acceptor.metrics.rejected();
            tracing::info!(%peer, "a client's handshake timed out");
            return;
        }
    };
    let Some((context, grant)) = acceptor.client(&stream) else {
        acceptor.metrics.rejected();
        tracing::warn!(%peer, "a client's certificate belongs to no context");
        return;
    };
    let own = Arc::ptr_eq(&context, &here);
    let (access, connected) = match grant {
        None if own => (Access::Checked(gate), None),
        None => (Access::MixedContexts, None),
        // The consumer of a grant is answered as if there were no other context.
        Some(_) if !own => return acceptor.metrics.rejected(),
        Some(grant) => {
            let Some(connected) = grant.admit() else {
                let name = &grant.stored.name;
                tracing::warn!("dropped a client: grant `{name}` has too many connections");
                return acceptor.metrics.rejected();
            };
            (Access::Granted(Arc::new(gate.strict()), grant), Some(connected))
        }
    };
    let grant = connected.as_ref().map(|connected| &connected.0);
    // In one place: with several, a connection would have room for each of them, for as long as it is open.
    tokio::select! {
        biased;
        () = grants::ended(grant) => {}
        () = talk(context, access, stream, shutdown) => {}
    }
}

/// Performs the handshake.
async fn greet(acceptor: &Acceptor, mut stream: TcpStream) -> io::Result<Box<TlsStream<Socket>>> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        // Read what the client sent, or a reset would discard the answer.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak TLS"));
    }
    let socket = Socket::new(stream);
    let mut rejected = socket.clone();
    let accepted = acceptor.tls.accept(socket).await;
    if accepted.is_err() {
        // In TLS 1.3 a client sends its first request before it learns that its certificate is
        // rejected. That is read, or a reset would discard the alert with the reason.
        let _ = rejected.shutdown().await;
        let mut nowhere = tokio::io::sink();
        let rest = tokio::io::copy(&mut rejected, &mut nowhere);
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    }
    accepted.map(Box::new)
}

/// Returns when a client has closed its side.
async fn left(socket: &Socket) {
    loop {
        tokio::time::sleep(LOOK).await;
        if socket.is_left() {
            return;
        }
    }
}

/// Serves an authenticated client until it leaves or the proxy ends.
async fn talk(
    context: Arc<ServedContext>,
    access: Access,
    stream: Box<TlsStream<Socket>>,
    shutdown: watch::Receiver<bool>,
) {
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let socket = stream.get_ref().0.clone();
    let activity = Activity::new();
    let streams = activity.clone();
    // Boxed, because hyper moves the future, and a connection has room for one as long as it is open.
    let service =
        service_fn(move |request| Box::pin(forward(context.clone(), &access, &streams, request)));
    let io = TokioIo::new(stream);
    let mut draining = pin!(begun(shutdown));
    let ended = if h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_stream_window_size(STREAM_WINDOW)
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(HEADERS);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = activity.idle_for(IDLE) => {
                connection.as_mut().graceful_shutdown();
                // A request that was already on its way is answered.
                let over = async {
                    tokio::time::sleep(FAREWELL).await;
                    activity.idle_for(FAREWELL).await;
                };
                tokio::select! {
                    ended = connection => ended,
                    () = over => Ok(()),
                }
            }
            () = &mut draining => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(BUFFER);
        let mut connection = pin!(builder.serve_connection(io, service).with_upgrades());
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = left(&socket) => return,
            () = &mut draining => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a client's connection ended");
    }
}
