//! A port for scrapers: plain HTTP with `/metrics` and `/healthz`.

use std::{io, net::SocketAddr, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use keyward_protocol::prometheus::Text;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

use crate::{
    Error,
    dashboard::Dashboard,
    gate::{Allowed, Gate},
    http_server::{HttpServer, response},
    names::{self, Names},
    refusal::{IMPERSONATION, OWN_AUTHORIZATION},
    report::Report,
};

const NO_IDENTITY: &str = "this port is unauthenticated: send the request without credentials";

/// Metrics in Prometheus' text format, or why there are none now.
type Scrape = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Where metrics come from; called for each scrape.
type Metrics = Box<dyn Fn() -> Scrape + Send + Sync>;

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
        let (address, listener) = bound
            .map_err(|error| Error::caused(format!("cannot listen on `{address}`"), &error))?;
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
        let server = Server::new(Channel::Port(gate, Box::new(move || Box::pin(metrics()))));
        loop {
            server.accept(listener.accept().await.map(|(stream, _)| stream)).await;
        }
    }
}

/// How a request arrives.
pub(crate) enum Channel {
    /// Through the directory that only the owner can enter.
    Socket(Arc<Report>, Arc<Dashboard>),
    Port(Gate, Metrics),
}

/// Answers the requests of one channel.
pub(crate) struct Server {
    channel: Arc<Channel>,
    http: HttpServer,
}

impl Server {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel: Arc::new(channel), http: HttpServer::new() }
    }

    pub(crate) async fn accept<S>(&self, accepted: io::Result<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let channel = self.channel.clone();
        let answer = move |request: Request<Incoming>| {
            let channel = channel.clone();
            async move { answer(&request, &channel).await }
        };
        self.http.accept(accepted, answer).await;
    }
}

async fn answer(request: &Request<Incoming>, channel: &Channel) -> Response<Full<Bytes>> {
    const PLAIN: &str = "text/plain";
    const JSON: &str = "application/json";
    if let Channel::Port(gate, _) = channel
        && let Err(refusal) = gate.check(request)
    {
        // No flag of the proxy allows credentials on this port.
        let identity = [OWN_AUTHORIZATION, IMPERSONATION].contains(&refusal);
        let message = if identity { NO_IDENTITY } else { &refusal.message };
        return response(refusal.code, PLAIN, format!("{message}\n"));
    }
    let path = request.uri().path();
    match (request.method(), path, channel) {
        (&Method::POST, "/grants", Channel::Socket(report, _)) => {
            report.grants.reload();
            return response(StatusCode::OK, PLAIN, "ok");
        }
        (&Method::POST, "/dashboard", Channel::Socket(_, dashboard)) => {
            return match dashboard.link().await {
                Ok(link) => {
                    let answer = json!({ "link": link.expose() });
                    response(StatusCode::OK, JSON, answer.to_string())
                }
                Err(error) => {
                    response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{error}\n"))
                }
            };
        }
        _ => {}
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return response(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "GET only\n");
    }
    match (path, channel) {
        ("/healthz", _) => response(StatusCode::OK, PLAIN, "ok"),
        ("/metrics", Channel::Socket(report, _)) => {
            response(StatusCode::OK, Text::CONTENT_TYPE, report.metrics())
        }
        ("/metrics", Channel::Port(_, metrics)) => match metrics().await {
            Ok(metrics) => response(StatusCode::OK, Text::CONTENT_TYPE, metrics),
            Err(why) => response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{why}\n")),
        },
        ("/status", Channel::Socket(report, _)) => {
            response(StatusCode::OK, JSON, report.status().to_string())
        }
        _ => response(StatusCode::NOT_FOUND, PLAIN, "/healthz, /metrics\n"),
    }
}
