//! A small HTTP/1.1 server for the owner of a proxy: one request on each connection.

use std::{convert::Infallible, io, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};

use crate::connection_limit::ConnectionLimit;

/// Connections at once, on each listener.
const CONNECTIONS: usize = 32;

/// How long one request and its answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(20);

/// Serves the connections of one listener.
pub(crate) struct HttpServer(ConnectionLimit);

impl HttpServer {
    pub(crate) fn new() -> Self {
        Self(ConnectionLimit::new(CONNECTIONS))
    }

    /// Answers the request on a connection in a task of its own.
    pub(crate) async fn accept<S, F>(
        &self,
        accepted: io::Result<S>,
        answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
    {
        match accepted {
            Ok(stream) => {
                let leave = self.0.enter();
                let talk = timeout(PATIENCE, talk(stream, answer));
                tokio::spawn(async move {
                    tokio::select! { _ = talk => {}, _ = leave => {} }
                });
            }
            Err(error) => {
                // Out of descriptors, or the client has left already: the next one may work.
                tracing::warn!(%error, "cannot accept a connection of the proxy's owner");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn talk<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = http1::Builder::new();
    // A client that leaves early needs no answer.
    let _ = builder.keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
}

/// A response with a body of this media type.
pub(crate) fn response<B: From<Bytes>>(
    code: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<B> {
    let mut response = Response::new(B::from(body.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
