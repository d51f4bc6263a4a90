//! A port for scrapers: plain HTTP with `/metrics` and `/healthz`.

use std::{convert::Infallible, io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use keyward_protocol::prometheus::Text;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::{sleep, timeout},
};

use crate::{
    Error,
    connection_limit::ConnectionLimit,
    gate::{Allowed, Gate},
    names::{self, Names},
    refusal::{IMPERSONATION, OWN_AUTHORIZATION},
    report::Report,
};

/// Connections at once, on each channel.
const CONNECTIONS: usize = 32;

/// How long one request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

const NO_IDENTITY: &str = "this port is unauthenticated: send the request without credentials";

/// Metrics in Prometheus' text format, or why there are none now.
type Scrape = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Where metrics come from; called for each scrape.
pub(crate) type Metrics = Arc<dyn Fn() -> Scrape + Send + Sync>;

/// Serves `/metrics` and `/healthz` over HTTP, without TLS and without authentication: everybody who
/// can connect can read the metrics. Requests with credentials, from web pages and for other host
/// names are refused.
pub struct MetricsServer {
    listener: TcpListener,
    names: Names,
}

impl MetricsServer {
    /// Listens. An address that other machines can reach needs `danger_listen_remote`, the names
    /// under which they reach it.
    pub async fn bind(
        address: SocketAddr,
        danger_listen_remote: Option<&[String]>,
    ) -> Result<Self, Error> {
        names::check([address], danger_listen_remote)?;
        let bound = TcpListener::bind(address).await;
        let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = bound.map_err(|error| {
            Error::failed(format!("cannot listen on `{address}`")).note("cause", error.to_string())
        })?;
        Ok(Self { listener, names: Names::new(address, danger_listen_remote) })
    }

    /// The URL to scrape.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.names.first())
    }

    /// Serves what `metrics` returns, until the future is dropped. An error is answered with 503.
    pub async fn serve<F>(self, metrics: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        let Self { listener, names } = self;
        let scheme = http::uri::Scheme::HTTP;
        let gate = Gate { names: names.hosts, scheme, allowed: Allowed::default() };
        let server =
            Server::new(Channel::Port(Arc::new(gate)), Arc::new(move || Box::pin(metrics())));
        loop {
            server.accept(listener.accept().await.map(|(stream, _)| stream)).await;
        }
    }
}

/// How a request arrives.
#[derive(Clone)]
pub(crate) enum Channel {
    /// Through the directory that only the owner can enter.
    Socket(Arc<Report>),
    Port(Arc<Gate>),
}

/// Answers the requests of one channel.
pub(crate) struct Server {
    channel: Channel,
    metrics: Metrics,
    limit: ConnectionLimit,
}

impl Server {
    pub(crate) fn new(channel: Channel, metrics: Metrics) -> Self {
        Self { channel, metrics, limit: ConnectionLimit::new(CONNECTIONS) }
    }

    pub(crate) async fn accept<S>(&self, accepted: io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match accepted {
            Ok(stream) => {
                let leave = self.limit.enter();
                let talk =
                    timeout(PATIENCE, talk(stream, self.channel.clone(), self.metrics.clone()));
                tokio::spawn(async move {
                    tokio::select! { _ = talk => {}, _ = leave => {} }
                });
            }
            Err(error) => {
                // Out of descriptors, or the client has left already: the next one may work.
                tracing::warn!(%error, "cannot accept a connection of a scraper");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin, channel: Channel, metrics: Metrics) {
    let service = service_fn(|request: Request<Incoming>| {
        let (channel, metrics) = (channel.clone(), metrics.clone());
        async move { Ok::<_, Infallible>(answer(&request, &channel, &metrics).await) }
    });
    let mut builder = http1::Builder::new();
    // A client that leaves early needs no answer.
    let _ = builder.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: &Request<Incoming>,
    channel: &Channel,
    metrics: &Metrics,
) -> Response<Full<Bytes>> {
    const PLAIN: &str = "text/plain";
    if let Channel::Port(gate) = channel
        && let Err(refusal) = gate.check(request)
    {
        // No flag of the proxy allows credentials on this port.
        let identity = [OWN_AUTHORIZATION, IMPERSONATION].contains(&refusal);
        let message = if identity { NO_IDENTITY } else { &refusal.message };
        return text(refusal.code, PLAIN, format!("{message}\n"));
    }
    if let (&Method::POST, "/grants", Channel::Socket(report)) =
        (request.method(), request.uri().path(), channel)
    {
        report.grants.reload();
        return text(StatusCode::OK, PLAIN, "ok".to_owned());
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET only\n".to_owned());
    }
    match (request.uri().path(), channel) {
        ("/healthz", _) => text(StatusCode::OK, PLAIN, "ok".to_owned()),
        ("/metrics", _) => match metrics().await {
            Ok(metrics) => text(StatusCode::OK, Text::CONTENT_TYPE, metrics),
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        ("/status", Channel::Socket(report)) => {
            text(StatusCode::OK, "application/json", report.status().to_string())
        }
        _ => text(StatusCode::NOT_FOUND, PLAIN, "/healthz, /metrics\n".to_owned()),
    }
}

fn text(code: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
