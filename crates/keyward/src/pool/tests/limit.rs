//! A server that changes how many streams it allows.

use std::io;

use http::Request;
use tokio::io::AsyncWriteExt;

use super::{
    GUARD, Pool,
    frames::{FrameServer, next_request},
};
use crate::Body;

/// A SETTINGS frame with this limit.
fn limit(streams: u32) -> Vec<u8> {
    [b"\0\0\x06\x04\0\0\0\0\0\0\x03".as_slice(), &streams.to_be_bytes()].concat()
}

/// A response on this stream: status 200, and no body.
fn response(stream: u32) -> Vec<u8> {
    [b"\0\0\x01\x01\x05".as_slice(), &stream.to_be_bytes(), b"\x88"].concat()
}

/// Allows 100 streams at first, and others from the first response on.
async fn serve(server: FrameServer, later: u32) -> io::Result<()> {
    let mut client = server.accept(&limit(100)).await?;
    let mut stream = next_request(&mut client).await?;
    client.write_all(&limit(later)).await?;
    loop {
        client.write_all(&response(stream)).await?;
        client.flush().await?;
        stream = next_request(&mut client).await?;
    }
}

/// How many more requests the pool would send on its connection now.
fn room(pool: &Pool) -> usize {
    let load = pool.0.lock().http2[0].load.clone();
    let slots: Vec<_> = std::iter::from_fn(|| load.take()).take(1000).collect();
    slots.len()
}

#[tokio::test]
async fn a_limit_that_the_server_sends_later_counts_whatever_it_is() {
    // 97 once stood for a server that had sent none.
    for later in [5, 97, 200] {
        let server = FrameServer::new().await;
        let (url, pool) = (server.url.clone(), server.pool());
        let server = tokio::spawn(serve(server, later));
        // hyper is asked for the limit when the next request is sent.
        for _ in 0..2 {
            let request = Request::get(format!("{url}/")).body(Body::empty()).unwrap();
            let sent = tokio::time::timeout(GUARD, pool.send(Box::new(request))).await.unwrap();
            sent.unwrap().into_body().bytes().await.unwrap();
        }
        assert_eq!(room(&pool), later as usize);
        server.abort();
    }
}
