//! The proxy's admin interface: a socket in the private directory, and an optional port for
//! scrapers.

use std::{
    convert::Infallible,
    fs::{self, Permissions},
    io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::Error;
use crate::{
    connection_limit::ConnectionLimit,
    gate::{Allowed, Gate},
    refusal::{IMPERSONATION, OWN_AUTHORIZATION},
    report::Report,
};

/// Connections at once, on each channel.
const CONNECTIONS: usize = 32;

/// How long one request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait after cannot accept a connection.
const PAUSE: Duration = Duration::from_millis(20);

const NO_IDENTITY: &str = "this port is unauthenticated: send the request without credentials";

/// Listeners that do not answer yet.
pub(crate) struct Admin {
    socket: UnixListener,
    port: Option<TcpListener>,
}

/// How a request arrives.
#[derive(Clone)]
enum Channel {
    /// Through the directory that only the owner can enter.
    Socket,
    Port(Arc<Gate>),
}

impl Admin {
    pub(crate) async fn bind(socket: &Path, port: Option<SocketAddr>) -> Result<Self, Error> {
        let failed = |what: String, error: std::io::Error| {
            Error::failed(format!("cannot listen on `{what}`")).note("cause", error.to_string())
        };
        let socket = listen(socket).map_err(|error| {
            let long = error.kind() == io::ErrorKind::InvalidInput;
            let error = failed(socket.display().to_string(), error);
            if long {
                error.hint("set `XDG_RUNTIME_DIR` to one of your directories with a shorter path")
            } else {
                error
            }
        })?;
        let port = match port {
            Some(address) => {
                Some(TcpListener::bind(address).await.map_err(|e| failed(address.to_string(), e))?)
            }
            None => None,
        };
        Ok(Self { socket, port })
    }

    /// The address of the port, if there is one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref().and_then(|port| port.local_addr().ok())
    }

    /// Answers until the returned tasks are dropped. On the port, only requests for one of these
    /// names.
    pub(crate) fn serve(self, report: Arc<Report>, names: Vec<String>) -> JoinSet<()> {
        let Self { socket, port } = self;
        let mut tasks = JoinSet::new();
        let server = AdminServer::new(report.clone(), Channel::Socket);
        tasks.spawn(async move {
            loop {
                server.accept(socket.accept().await.map(|(stream, _)| stream)).await;
            }
        });
        if let Some(port) = port {
            let gate = Gate { names, scheme: http::uri::Scheme::HTTP, allowed: Allowed::default() };
            let server = AdminServer::new(report, Channel::Port(Arc::new(gate)));
            tasks.spawn(async move {
                loop {
                    server.accept(port.accept().await.map(|(stream, _)| stream)).await;
                }
            });
        }
        tasks
    }
}

/// Listens on a socket that its owner can use, whatever the umask. Others cannot enter its
/// directory.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers the requests of one channel.
struct AdminServer {
    report: Arc<Report>,
    channel: Channel,
    limit: ConnectionLimit,
}

impl AdminServer {
    fn new(report: Arc<Report>, channel: Channel) -> Self {
        Self { report, channel, limit: ConnectionLimit::new(CONNECTIONS) }
    }

    async fn accept<S>(&self, accepted: io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match accepted {
            Ok(stream) => {
                let leave = self.limit.enter();
                let talk =
                    timeout(PATIENCE, talk(stream, self.report.clone(), self.channel.clone()));
                tokio::spawn(async move {
                    tokio::select! { _ = talk => {}, _ = leave => {} }
                });
            }
            Err(error) => {
                // Out of descriptors, or the client has left already: the next one may work.
                tracing::warn!(%error, "cannot accept a connection to the admin interface");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, report: Arc<Report>, channel: Channel) {
    let service = service_fn(|request| {
        let response = answer(&request, &report, &channel);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    // A client that leaves early needs no answer.
    let _ = builder.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

fn answer(
    request: &Request<Incoming>,
    report: &Report,
    channel: &Channel,
) -> Response<Full<Bytes>> {
    if let Channel::Port(gate) = channel
        && let Err(refusal) = gate.check(request)
    {
        // No flag of the proxy allows credentials on this port.
        let identity = [OWN_AUTHORIZATION, IMPERSONATION].contains(&refusal);
        let message = if identity { NO_IDENTITY } else { &refusal.message };
        return text(refusal.code, "text/plain", format!("{message}\n"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n".to_owned());
    }
    match (request.uri().path(), channel) {
        ("/healthz", _) => text(StatusCode::OK, "text/plain", "ok".to_owned()),
        ("/metrics", _) => {
            text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", report.metrics())
        }
        ("/status", Channel::Socket) => {
            text(StatusCode::OK, "application/json", report.status().to_string())
        }
        _ => text(StatusCode::NOT_FOUND, "text/plain", "/healthz, /metrics\n".to_owned()),
    }
}

fn text(code: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
