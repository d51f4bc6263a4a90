//! The listener: TLS with a client certificate, then HTTP/2 or HTTP/1.1.

use std::{collections::HashMap, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use keyward::identity::WallClock;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    certificates::Authority,
    connection_limit::ConnectionLimit,
    context::ServedContext,
    forward::{Access, forward},
    gate::Gate,
    metrics::Metrics,
    request_stats::Activity,
    socket::Socket,
};

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pending handshakes. One more, and the oldest is dropped: a client's takes milliseconds, and nobody keeps
/// others out by saying nothing.
const HANDSHAKES: usize = 256;

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// Readers that pause must not stall others of the same connection.
const CONNECTION_WINDOW: u32 = 1 << 30;
const STREAM_WINDOW: u32 = 1 << 20;
const STREAMS: u32 = 1000;
const HEADERS: u32 = 256 * 1024;

/// What is kept of a response that its client does not read, for each stream.
const SEND_BUFFER: usize = 64 * 1024;

/// The read buffer of a connection over HTTP/1.1, which must hold a request's head, and what is kept of a
/// response that its client does not read.
const BUFFER: usize = 256 * 1024;

/// For the head of a request over HTTP/1.1, the wait for its first byte included, and for the next request over
/// HTTP/2 when none is under way: so long is a connection kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30);

/// For a client over HTTP/2 to hear that its idle connection ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// How often a client over HTTP/1.1 is looked at. hyper reads nothing while it answers one request and
/// has the next one already, and would not see that nobody waits for either.
const LOOK: Duration = Duration::from_secs(5);

/// What somebody who speaks HTTP without TLS is told, as Go's servers do.
const PLAIN: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    keyward proxy: a plain HTTP request was sent to a TLS port\n";

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// No new connections; what is under way is finished.
    Draining,
}

/// What the listeners of all contexts share.
pub(crate) struct Acceptor {
    tls: TlsAcceptor,
    /// The context that a client's certificate is for.
    contexts: HashMap<CertificateDer<'static>, Arc<ServedContext>>,
    metrics: Arc<Metrics>,
    handshakes: ConnectionLimit,
}

/// The listener of one context.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) gate: Arc<Gate>,
    pub(crate) context: Arc<ServedContext>,
}

impl Acceptor {
    pub(crate) fn new(
        authority: &Authority,
        identity: (CertificateDer<'static>, PrivateKeyDer<'static>),
        contexts: HashMap<CertificateDer<'static>, Arc<ServedContext>>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            tls: Arc::new(settings(authority, identity)?).into(),
            contexts,
            metrics,
            handshakes: ConnectionLimit::new(HANDSHAKES),
        })
    }

    /// The context of the certificate that was shown.
    fn context(&self, stream: &TlsStream<Socket>) -> Option<&Arc<ServedContext>> {
        let (_, session) = stream.get_ref();
        self.contexts.get(session.peer_certificates()?.first()?)
    }
}

fn settings(
    authority: &Authority,
    (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
) -> Result<ServerConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone())?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    let mut settings = ServerConfig::builder_with_details(provider, Arc::new(WallClock))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)?;
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Few clients come back, and none of them has a secret of an earlier handshake to lose.
    settings.session_storage = Arc::new(NoServerSessionStorage {});
    settings.send_tls13_tickets = 0;
    Ok(settings)
}

/// Returns when the end has begun.
async fn draining(mut stage: watch::Receiver<Stage>) {
    let _ = stage.wait_for(|stage| *stage >= Stage::Draining).await;
}

/// Accepts until the end, then waits for what is under way.
pub(crate) async fn serve(
    acceptor: Arc<Acceptor>,
    listeners: Vec<Listener>,
    stage: watch::Receiver<Stage>,
) {
    let mut all = JoinSet::new();
    for listener in listeners {
        all.spawn(accept(acceptor.clone(), listener, stage.clone()));
    }
    while all.join_next().await.is_some() {}
}

/// Accepts the clients of one context.
async fn accept(acceptor: Arc<Acceptor>, listener: Listener, stage: watch::Receiver<Stage>) {
    let Listener { socket, gate, context } = listener;
    let mut connections = JoinSet::new();
    let mut draining = pin!(draining(stage.clone()));
    loop {
        tokio::select! {
            biased;
            () = &mut draining => break,
            // At once, not with the next client: the memory of one that has ended is kept until then.
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => {
                    let here = (context.clone(), gate.clone());
                    connections.spawn(connect(acceptor.clone(), here, stream, peer, stage.clone()));
                }
                Err(error) => {
                    // Out of descriptors, or a client that left already: others may fare better.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            },
        }
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}

/// Serves one client that came to the port of a context.
async fn connect(
    acceptor: Arc<Acceptor>,
    (here, gate): (Arc<ServedContext>, Arc<Gate>),
    stream: TcpStream,
    peer: SocketAddr,
    stage: watch::Receiver<Stage>,
) {
    acceptor.metrics.connection();
    let leave = acceptor.handshakes.enter();
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(HANDSHAKE_TIMEOUT, greet(&acceptor, stream)) => greeted,
        _ = leave => {
            acceptor.metrics.rejected();
            tracing::warn!(%peer, "a client had to leave: too many have not said who they are");
            return;
        }
        // Nothing of it is under way before the handshake.
        () = draining(stage.clone()) => return,
    };
    let stream = match greeted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            acceptor.metrics.rejected();
            tracing::info!(%peer, %error, "a client was not let in");
            return;
        }
        Err(_) => {
            acceptor.metrics.rejected();
            tracing::info!(%peer, "a client took too long to say who it is");
            return;
        }
    };
    let Some(context) = acceptor.context(&stream).cloned() else {
        acceptor.metrics.rejected();
        tracing::warn!(%peer, "a client's certificate is for no context");
        return;
    };
    let access =
        if Arc::ptr_eq(&context, &here) { Access::Checked(gate) } else { Access::MixedContexts };
    talk(context, access, stream, stage).await;
}

/// Finds out who it is.
async fn greet(acceptor: &Acceptor, mut stream: TcpStream) -> io::Result<TlsStream<Socket>> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
        stream.write_all(PLAIN).await?;
        stream.shutdown().await?;
        // What it sent is read, or the answer would be lost with a reset.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak TLS"));
    }
    acceptor.tls.accept(Socket::new(stream)).await
}

/// Returns when a client has ended its side.
async fn left(socket: &Socket) {
    loop {
        tokio::time::sleep(LOOK).await;
        if socket.is_left() {
            return;
        }
    }
}

/// Serves a client that is known, until it leaves or we end.
async fn talk(
    context: Arc<ServedContext>,
    access: Access,
    stream: TlsStream<Socket>,
    stage: watch::Receiver<Stage>,
) {
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let socket = stream.get_ref().0.clone();
    let activity = Activity::new();
    let streams = activity.clone();
    let service = service_fn(move |request| {
        forward(context.clone(), access.clone(), streams.clone(), request)
    });
    let io = TokioIo::new(stream);
    let mut draining = pin!(draining(stage));
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
                // A request that was on its way already is answered.
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
