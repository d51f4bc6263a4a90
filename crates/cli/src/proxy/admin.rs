//! For the owner: a socket in the private folder, and a port for scrapers where one is asked for.

use std::{convert::Infallible, net::SocketAddr, path::Path, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    task::JoinSet,
};

use super::{gate::Gate, report::Report};
use crate::failure::Failure;

/// Listens, and does not answer yet.
pub(crate) struct Admin {
    socket: UnixListener,
    port: Option<TcpListener>,
}

/// Whether somebody comes through the folder that is the owner's alone.
#[derive(Clone)]
enum Way {
    Socket,
    Port(Arc<Gate>),
}

impl Admin {
    pub(crate) async fn bind(socket: &Path, port: Option<SocketAddr>) -> Result<Self, Failure> {
        let failed = |what: String, error: std::io::Error| {
            Failure::failed(format!("cannot listen on `{what}`")).note("cause", error.to_string())
        };
        let socket =
            UnixListener::bind(socket).map_err(|e| failed(socket.display().to_string(), e))?;
        let port = match port {
            Some(address) => {
                Some(TcpListener::bind(address).await.map_err(|e| failed(address.to_string(), e))?)
            }
            None => None,
        };
        Ok(Self { socket, port })
    }

    /// Answers until what it returns is dropped.
    pub(crate) fn serve(self, report: Arc<Report>) -> JoinSet<()> {
        let Self { socket, port } = self;
        let mut tasks = JoinSet::new();
        let told = report.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                tokio::spawn(talk(stream, told.clone(), Way::Socket));
            }
        });
        if let Some(port) = port
            && let Ok(address) = port.local_addr()
        {
            let names = vec![address.to_string(), format!("localhost:{}", address.port())];
            let gate = Arc::new(Gate {
                names,
                scheme: http::uri::Scheme::HTTP,
                allowed: super::Allowed::default(),
            });
            crate::output::tell(&format!("metrics http://{address}/metrics\n"));
            tasks.spawn(async move {
                while let Ok((stream, _)) = port.accept().await {
                    tokio::spawn(talk(stream, report.clone(), Way::Port(gate.clone())));
                }
            });
        }
        tasks
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    report: Arc<Report>,
    way: Way,
) {
    let service = service_fn(|request| {
        let response = answer(&request, &report, &way);
        async move { Ok::<_, Infallible>(response) }
    });
    // Whoever leaves in the middle needs no answer.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

fn answer(request: &Request<Incoming>, report: &Report, way: &Way) -> Response<Full<Bytes>> {
    if let Way::Port(gate) = way
        && let Err(refusal) = gate.check(request)
    {
        return text(refusal.code, "text/plain", format!("{}\n", refusal.message));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n".to_owned());
    }
    match (request.uri().path(), way) {
        ("/healthz", _) => text(StatusCode::OK, "text/plain", "ok".to_owned()),
        ("/metrics", _) => {
            text(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", report.metrics())
        }
        ("/status", Way::Socket) => {
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
