//! What the layer costs a request: nothing beyond the copy for a replay.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use keyward::{Origin, bearer};
use keyward_host::{Credential, Fetched, Occasion, Source};
use keyward_process::clock::SystemClock;
use keyward_protocol::Secret;
use tower::{Layer, Service};

/// Answers at once, and allocates nothing.
#[derive(Clone)]
struct Nothing;

impl Service<Request<Empty<Bytes>>> for Nothing {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<Empty<Bytes>>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}

/// As a client makes them, with room for one header more.
fn request() -> Request<Empty<Bytes>> {
    let mut request = Request::get("/api/v1/pods").body(Empty::new()).unwrap();
    for name in ["accept", "user-agent", "x-request-id"] {
        request.headers_mut().insert(name, HeaderValue::from_static("something"));
    }
    request
}

/// Allocations of a piece of work, without those of `request`.
fn allocations(work: impl FnOnce(Request<Empty<Bytes>>)) -> u64 {
    let request = request();
    allocation_counter::measure(|| work(request)).count_total
}

fn layer() -> bearer::Layer {
    let fetch = |_: &Occasion| {
        let value = Credential::of(Some(Secret::new("token")), None, None)?;
        Ok(Fetched { value, expires: None })
    };
    let source = Source::from_fetch(fetch, Arc::new(SystemClock));
    source.credential_blocking().unwrap();
    bearer::Layer::new(source, Origin::parse("https://api.example").unwrap())
}

#[test]
fn a_request_costs_the_replay_copy_and_nothing_else() {
    let send = |layer: bearer::Layer| {
        let mut service = layer.layer(Nothing);
        let mut count = u64::MAX;
        // The first has thread-local storage to set up.
        for _ in 0..3 {
            count = allocations(|request| {
                let response = service.call(request).now_or_never().unwrap().unwrap();
                assert_eq!(response.status(), 200);
            });
        }
        count
    };
    let bare = allocations(|request| drop(Nothing.call(request).now_or_never().unwrap()));
    assert_eq!(bare, 0);
    assert_eq!(send(layer().without_replay()), 0);

    let copy = allocations(|request| {
        let mut headers = Vec::with_capacity(request.headers().len());
        headers.extend(request.headers().iter().map(|(name, value)| (name.clone(), value.clone())));
        let _ = (headers, request.uri().clone(), request.method().clone());
    });
    assert!(copy > 0, "the count counts");
    assert_eq!(send(layer()), copy);
}
