#![allow(clippy::unwrap_used)]

mod frames;
mod goaway;
mod late;
mod limit;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, Response, StatusCode, Version, header::AUTHORIZATION};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_testing::server::{Deed, Fault, Server, Setup, User};
use tokio::sync::mpsc;

use super::{Failure, Lifetimes, Pool};
use crate::{
    Body, Incoming, Kind, Origin,
    connect::{Connector, Dialer},
    tls::Trust,
};

const TOKEN: &str = "a-token";

/// Long enough for a busy machine; only a hang gets there.
const GUARD: Duration = Duration::from_secs(60);

struct Bench {
    server: Server,
    pool: Pool,
}

fn bench(setup: Setup, lifetimes: Lifetimes) -> Bench {
    let server = setup.start().unwrap();
    server.users().token(TOKEN, User::new("anna"));
    let pool = pool(&server, lifetimes);
    Bench { server, pool }
}

fn pool(server: &Server, lifetimes: Lifetimes) -> Pool {
    pool_of(&server.url(), server.authority().pem(), lifetimes)
}

fn pool_of(url: &str, authority: &str, lifetimes: Lifetimes) -> Pool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = Trust::authorities(provider, authority.as_bytes()).unwrap();
    let tls = trust.client_config(None).unwrap();
    let nowhere = Surroundings::fixed(Fixed::default());
    let origin = Origin::parse(url).unwrap();
    let connector = Connector::new(origin, trust, "", &nowhere, GUARD).unwrap();
    Pool::new(Dialer::new(Arc::new(connector), tls, None), lifetimes)
}

impl Bench {
    fn request(&self, method: Method, path: &str, body: Body) -> Request<Body> {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server.url()))
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .body(body)
            .unwrap()
    }

    async fn get(&self, path: &str) -> Result<Response<Incoming>, Failure> {
        let request = self.request(Method::GET, path, Body::empty());
        tokio::time::timeout(GUARD, self.pool.send(Box::new(request))).await.unwrap()
    }

    async fn ok(&self, path: &str) {
        let response = self.get(path).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().bytes().await.unwrap();
    }

    /// An exchange that stays open for as long as what is returned is kept.
    async fn watch(&self) -> (mpsc::Sender<Bytes>, Response<Incoming>) {
        let (sender, receiver) = mpsc::channel(1);
        let frames =
            futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<Bytes>| {
                let bytes = receiver.recv().await?;
                Some((Ok::<_, std::convert::Infallible>(Frame::data(bytes)), receiver))
            });
        let body = Body::stream(StreamBody::new(Box::pin(frames)));
        let request = self.request(Method::POST, "/echo", body);
        let response =
            tokio::time::timeout(GUARD, self.pool.send(Box::new(request))).await.unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        (sender, response)
    }
}

/// Waits for the server to see something; fails only if it never does.
async fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let wait = async {
        while !seen() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(GUARD, wait).await.is_ok(), "never saw: {what}");
}

#[tokio::test]
async fn a_thousand_requests_at_once_share_one_connection() {
    let bench = bench(Server::setup().streams(2_000), Lifetimes::default());
    join_all((0..1000).map(|_| bench.ok("/healthz"))).await;
    assert_eq!(bench.server.counts().connections, 1);
}

#[tokio::test]
async fn open_watches_beyond_the_stream_limit_do_not_stop_other_requests() {
    let bench = bench(Server::setup().streams(100), Lifetimes::default());
    let watches = join_all((0..300).map(|_| bench.watch())).await;
    bench.ok("/healthz").await;
    assert_eq!(watches.len(), 300);
    let connections = bench.server.counts().connections;
    assert!((4..=6).contains(&connections), "{connections} connections");
}

#[tokio::test]
async fn a_limit_below_the_usual_is_kept_from_the_first_burst_on() {
    let bench = bench(Server::setup().streams(3), Lifetimes::default());
    let watches = join_all((0..10).map(|_| bench.watch())).await;
    bench.ok("/healthz").await;
    assert_eq!(watches.len(), 10);
    assert_eq!(bench.server.counts().connections, 4);
}

#[tokio::test]
async fn streams_that_have_ended_make_room_again() {
    let bench = bench(Server::setup().streams(1), Lifetimes::default());
    for _ in 0..5 {
        bench.ok("/healthz").await;
    }
    assert_eq!(bench.server.counts().connections, 1);
}

#[tokio::test]
async fn an_http1_server_gets_a_connection_for_each_request_in_flight_and_keeps_them() {
    let bench = bench(Server::setup().only_http1(), Lifetimes::default());
    join_all((0..8).map(|_| bench.ok("/healthz"))).await;
    let connections = bench.server.counts().connections;
    assert!((1..=8).contains(&connections), "{connections} connections");
    // The connections come back on tasks of their own.
    until("an idle connection", || !bench.pool.0.lock().idle.is_empty()).await;
    bench.ok("/healthz").await;
    assert_eq!(bench.server.counts().connections, connections);
    assert_eq!(bench.server.recorder().last().unwrap().version, Version::HTTP_11);
}

#[tokio::test]
async fn three_readers_that_pause_stall_nobody() {
    let bench = bench(Server::setup(), Lifetimes::default());
    let mut paused = Vec::new();
    for _ in 0..3 {
        let mut response = bench.get("/big/8000000").await.unwrap();
        // The first frame, and then no more.
        response.body_mut().frame().await.unwrap().unwrap();
        paused.push(response);
    }
    let other = bench.get("/big/8000000").await.unwrap();
    let read = tokio::time::timeout(GUARD, other.into_body().bytes()).await.unwrap();
    assert_eq!(read.unwrap().len(), 8_000_000);
    assert_eq!(bench.server.counts().connections, 1);
}

#[tokio::test]
async fn dropping_the_pool_closes_what_is_idle_and_lets_bodies_finish() {
    let Bench { server, pool } = bench(Server::setup(), Lifetimes::default());
    let bench = Bench { server, pool };
    bench.ok("/healthz").await;
    let (feed, mut watch) = bench.watch().await;
    let Bench { server, pool } = bench;
    drop(pool);

    feed.send(Bytes::from_static(b"still here")).await.unwrap();
    let frame = watch.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "still here");
    assert_eq!(server.counts().open, 1);
    drop((feed, watch));
    until("the connection closed", || server.counts().open == 0).await;
}

#[tokio::test]
async fn what_is_open_longer_than_the_drain_limit_is_cut() {
    let lifetimes = Lifetimes { drain: Some(Duration::from_millis(20)), ..Lifetimes::default() };
    let bench = bench(Server::setup(), lifetimes);
    let (_feed, watch) = bench.watch().await;
    let Bench { server, pool } = bench;
    drop(pool);
    let end = tokio::time::timeout(GUARD, watch.into_body().bytes()).await.unwrap();
    assert!(end.is_err());
    until("the connection closed", || server.counts().open == 0).await;
}

#[tokio::test]
async fn idle_connections_are_closed_after_their_time() {
    for setup in [Server::setup(), Server::setup().only_http1()] {
        let lifetimes = Lifetimes { idle: Duration::from_millis(40), ..Lifetimes::default() };
        let bench = bench(setup, lifetimes);
        bench.ok("/healthz").await;
        until("the connection closed", || bench.server.counts().open == 0).await;
        bench.ok("/healthz").await;
        assert_eq!(bench.server.counts().connections, 2);
    }
}

#[tokio::test]
async fn a_request_that_runs_into_the_end_of_an_idle_connection_may_be_sent_again() {
    for setup in [Server::setup(), Server::setup().only_http1()] {
        let bench = bench(setup, Lifetimes::default());
        for _ in 0..20 {
            match bench.get("/healthz").await {
                Ok(response) => drop(response.into_body().bytes().await.unwrap()),
                // The server has closed it, and the news is on its way.
                Err(failure) => assert!(failure.retryable, "{failure:?}"),
            }
            bench.server.cut_connections();
            until("the connection closed", || bench.server.counts().open == 0).await;
        }
    }
}

#[tokio::test]
async fn a_request_cut_on_a_fresh_connection_is_lost_and_not_sent_again() {
    for setup in [Server::setup(), Server::setup().only_http1()] {
        let bench = bench(setup, Lifetimes::default());
        bench.server.faults().add(Fault::always(Deed::Cut).times(1));
        let failure = bench.get("/healthz").await.unwrap_err();
        assert_eq!(failure.error.kind(), Kind::Lost, "{failure:?}");
        assert!(!failure.retryable);
    }
}

#[tokio::test]
async fn a_goaway_between_requests_costs_no_request() {
    let bench = bench(Server::setup(), Lifetimes::default());
    for _ in 0..20 {
        bench.ok("/healthz").await;
        bench.server.go_away();
    }
}

#[tokio::test]
async fn everybody_who_waits_hears_of_a_failed_attempt() {
    let server = Server::setup().start().unwrap();
    let pool = pool(&server, Lifetimes::default());
    let url = server.url();
    server.stop();
    let failures = join_all((0..50).map(|_| {
        let request = Request::get(format!("{url}/healthz")).body(Body::empty()).unwrap();
        pool.send(Box::new(request))
    }))
    .await;
    for failure in failures {
        assert_eq!(failure.unwrap_err().error.kind(), Kind::Connect);
    }
}

#[tokio::test]
async fn a_connection_outlives_the_caller_who_opened_it_and_gave_up() {
    let bench = bench(Server::setup(), Lifetimes::default());
    bench.server.pause();
    let gave_up = tokio::time::timeout(Duration::from_millis(20), bench.pool.lease()).await;
    assert!(gave_up.is_err());
    bench.server.resume();
    bench.ok("/healthz").await;
    assert_eq!(bench.server.counts().connections, 1);
}
