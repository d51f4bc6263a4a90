//! A server that ends requests in ways that well-behaved ones do not.

use std::io;

use http::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    GUARD,
    frames::{FrameServer, next_request},
};
use crate::{Body, Kind, pool::Failure};

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
    let server = FrameServer::new().await;
    let (url, pool) = (server.url.clone(), server.pool());
    let server = tokio::spawn(async move {
        let mut client = server.accept(EMPTY_SETTINGS).await?;
        next_request(&mut client).await?;
        client.write_all(bytes).await?;
        client.shutdown().await?;
        // Until the client has gone: closing earlier would reset what is on its way.
        let _ = client.read_to_end(&mut Vec::new()).await;
        io::Result::Ok(())
    });
    let request = Request::post(format!("{url}/")).body(Body::empty()).unwrap();
    let failure =
        tokio::time::timeout(GUARD, pool.send(Box::new(request))).await.unwrap().unwrap_err();
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
