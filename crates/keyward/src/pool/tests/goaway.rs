//! A server that speaks HTTP/2 by the byte, to end requests in ways that well-behaved ones do not.

use std::{io, sync::Arc};

use http::Request;
use keyward_testing::authority::Authority;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Body, Kind,
    pool::{Failure, Settings},
};

const PREFACE: usize = 24;
const HEADERS: u8 = 1;

const EMPTY_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// No stream was worked on, and nothing is wrong.
const GOAWAY: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// No stream was worked on, and the client is to calm down.
const GOAWAY_ANGRY: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0b";
/// The first stream was worked on, and nothing is wrong.
const GOAWAY_AFTER: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0";
/// The first stream is refused.
const REFUSED: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x07";

/// What becomes of a request when the server answers it with these bytes and closes.
async fn answered(bytes: &'static [u8]) -> Failure {
    let authority = Authority::new("test").unwrap();
    let issued = authority.server(&["127.0.0.1"]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.certificate().clone()], issued.key())
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut stream = TlsAcceptor::from(Arc::new(tls)).accept(stream).await?;
        stream.write_all(EMPTY_SETTINGS).await?;
        stream.read_exact(&mut [0; PREFACE]).await?;
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            stream.read_exact(&mut vec![0; length]).await?;
            if head[3] == HEADERS {
                break;
            }
        }
        stream.write_all(bytes).await?;
        stream.shutdown().await?;
        // Until the client has gone: closing earlier would reset what is on its way.
        let _ = stream.read_to_end(&mut Vec::new()).await;
        io::Result::Ok(())
    });
    let pool = super::pool_of(&url, authority.pem(), Settings::default());
    let request = Request::post(format!("{url}/")).body(Body::empty()).unwrap();
    let failure = tokio::time::timeout(super::GUARD, pool.send(Box::new(request)))
        .await
        .unwrap()
        .unwrap_err();
    drop(pool);
    server.await.unwrap().unwrap();
    failure
}

#[tokio::test]
async fn a_request_left_out_of_a_goaway_may_be_sent_again() {
    let failure = answered(GOAWAY).await;
    assert!(failure.retryable, "{failure:?}");
    assert_eq!(failure.error.kind(), Kind::Lost);
}

#[tokio::test]
async fn a_refused_stream_may_be_sent_again() {
    let failure = answered(REFUSED).await;
    assert!(failure.retryable, "{failure:?}");
}

#[tokio::test]
async fn a_goaway_with_an_error_ends_the_request() {
    let failure = answered(GOAWAY_ANGRY).await;
    assert!(!failure.retryable, "{failure:?}");
}

#[tokio::test]
async fn a_request_the_server_has_begun_is_not_sent_again() {
    let failure = answered(GOAWAY_AFTER).await;
    assert!(!failure.retryable, "{failure:?}");
}
