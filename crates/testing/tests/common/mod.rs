//! A plain client: one TLS connection, requests by hand.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, clippy::disallowed_methods)]

pub mod kubectl;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyward_testing::{authority::Issued, server::Server};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::ring};
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_rustls::TlsConnector;

/// TLS settings of a client that trusts the server's authority. Sessions are kept in it.
pub fn settings(
    server: &Server,
    identity: Option<&Issued>,
    protocol: &str,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(server.authority().der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut settings = match identity {
        Some(issued) => {
            builder.with_client_auth_cert(vec![issued.certificate().clone()], issued.key()).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    settings.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    Arc::new(settings)
}

pub fn http1(server: &Server, identity: Option<&Issued>) -> Arc<ClientConfig> {
    settings(server, identity, "http/1.1", &rustls::version::TLS13)
}

pub fn http2(server: &Server, identity: Option<&Issued>) -> Arc<ClientConfig> {
    settings(server, identity, "h2", &rustls::version::TLS13)
}

pub type Outcome = Result<(StatusCode, HeaderMap, Bytes), hyper::Error>;

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

pub struct Client {
    sender: Sender,
    pub driver: JoinHandle<Result<(), hyper::Error>>,
}

impl Client {
    pub async fn connect(server: &Server, settings: Arc<ClientConfig>) -> Self {
        Self::try_connect(server, settings).await.unwrap()
    }

    pub async fn try_connect(
        server: &Server,
        settings: Arc<ClientConfig>,
    ) -> Result<Self, std::io::Error> {
        let stream = TcpStream::connect(server.address()).await?;
        let name = "localhost".try_into().unwrap();
        let stream = TlsConnector::from(settings).connect(name, stream).await?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        if http2 {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), io).await.map_err(std::io::Error::other)?;
            return Ok(Self { sender: Sender::Http2(sender), driver: tokio::spawn(connection) });
        }
        let (sender, connection) = http1::handshake(io).await.map_err(std::io::Error::other)?;
        Ok(Self { sender: Sender::Http1(sender), driver: tokio::spawn(connection.with_upgrades()) })
    }

    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub async fn whole(&mut self, request: Request<Full<Bytes>>) -> Outcome {
        let answer = self.send(request).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head.status, head.headers, body))
    }

    /// GET with a bearer token (none when empty); the status and the body as JSON or text.
    pub async fn get(&mut self, path: &str, token: &str) -> (StatusCode, serde_json::Value) {
        let (status, _, body) = self.whole(get(path, token)).await.unwrap();
        (status, value(&body))
    }

    /// Any method with a JSON body.
    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        token: &str,
        body: &serde_json::Value,
    ) -> (StatusCode, serde_json::Value) {
        let request = Request::builder()
            .method(method)
            .uri(uri(path))
            .header("host", "localhost")
            .header("content-type", kind)
            .header("authorization", format!("Bearer {token}"))
            .body(Full::from(body.to_string()))
            .unwrap();
        let (status, _, body) = self.whole(request).await.unwrap();
        (status, value(&body))
    }
}

pub fn get(path: &str, token: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder().uri(uri(path)).header("host", "localhost");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Full::default()).unwrap()
}

/// HTTP/2 wants the whole address; HTTP/1.1 sends the path of it.
fn uri(path: &str) -> String {
    format!("https://localhost{path}")
}

fn value(body: &[u8]) -> serde_json::Value {
    serde_json::from_slice(body)
        .unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}
