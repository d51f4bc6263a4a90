//! What goes wrong on purpose, and what is counted.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::similar_names)]

mod common;

use std::time::{Duration, SystemTime};

use common::{Client, get, http1, http2, settings};
use http::StatusCode;
use keyward_testing::server::{Deed, Fault, Server, User};

fn server() -> Server {
    let server = Server::setup().start().unwrap();
    server.users().token("good", User::new("anna"));
    server
}

#[tokio::test]
async fn requests_and_connections_are_counted_and_recorded() {
    let server = server();
    let mut first = Client::connect(&server, http2(&server, None)).await;
    first.get("/healthz", "good").await;
    first.get("/nothing", "good").await;
    let mut second = Client::connect(&server, http1(&server, None)).await;
    second.get("/healthz?x=1", "bad").await;
    let counts = server.counts();
    assert_eq!((counts.connections, counts.handshakes, counts.open), (2, 2, 2));
    assert_eq!((counts.requests, counts.waiting), (3, 0));
    assert_eq!((counts.status(200), counts.status(404), counts.status(401)), (1, 1, 1));
    let records = server.recorder().of("/healthz");
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].header("authorization"), Some("Bearer good"));
    assert!(!format!("{records:?}").contains("good"));
    assert_eq!(records[0].user.as_deref(), Some("anna"));
    assert_eq!(records[1].user, None);
    assert_eq!(records[1].status, Some(StatusCode::UNAUTHORIZED));
    assert_ne!(records[0].connection, records[1].connection);
    assert_eq!(records[0].server_name.as_deref(), Some("localhost"));
}

#[tokio::test]
async fn sessions_are_resumed_in_both_versions_until_a_restart() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = server();
        let settings = settings(&server, None, "http/1.1", version);
        let resumed = async || {
            let mut client = Client::connect(&server, settings.clone()).await;
            client.get("/healthz", "good").await;
            server.recorder().last().unwrap().resumed
        };
        assert!(!resumed().await);
        assert!(resumed().await, "{version:?}");
        assert_eq!(server.counts().resumed, 1);
        server.restart().unwrap();
        assert!(!resumed().await);
    }
}

#[tokio::test]
async fn a_user_is_forbidden_a_path_for_a_number_of_times() {
    let server = server();
    server.users().token("other", User::new("berta"));
    let deed = Deed::Answer(StatusCode::FORBIDDEN);
    server.faults().add(Fault::on("/version", deed).user("anna").after(1).times(1));
    let mut client = Client::connect(&server, http2(&server, None)).await;
    assert_eq!(client.get("/version", "good").await.0, StatusCode::OK);
    assert_eq!(client.get("/version", "other").await.0, StatusCode::OK);
    let (status, body) = client.get("/version", "good").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(body["reason"], "Forbidden");
    assert_eq!(client.get("/version", "good").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_cut_request_has_no_answer_and_no_connection() {
    let server = server();
    server.faults().add(Fault::on("/version", Deed::Cut));
    for settings in [http1(&server, None), http2(&server, None)] {
        let mut client = Client::connect(&server, settings).await;
        assert!(client.whole(get("/version", "good")).await.is_err());
        assert!(client.whole(get("/healthz", "good")).await.is_err());
    }
    assert_eq!(server.recorder().last().unwrap().status, None);
}

#[tokio::test]
async fn a_connection_is_cut_behind_the_head_of_an_answer() {
    let server = server();
    server.faults().add(Fault::on("/version", Deed::CutAfterHead));
    for settings in [http1(&server, None), http2(&server, None)] {
        let mut client = Client::connect(&server, settings).await;
        let answer = client.send(get("/version", "good")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let body = http_body_util::BodyExt::collect(answer.into_body()).await;
        assert!(body.is_err());
    }
}

#[tokio::test]
async fn a_connection_wears_out() {
    let server = server();
    server.faults().cut_after(Some(2));
    let mut client = Client::connect(&server, http1(&server, None)).await;
    assert_eq!(client.get("/healthz", "good").await.0, StatusCode::OK);
    assert_eq!(client.get("/healthz", "good").await.0, StatusCode::OK);
    let end = tokio::time::timeout(Duration::from_secs(10), client.driver).await;
    assert!(end.is_ok());
}

#[tokio::test]
async fn go_away_lets_the_request_finish_and_ends_the_connection() {
    let server = server();
    for settings in [http1(&server, None), http2(&server, None)] {
        server.faults().clear();
        server.faults().add(Fault::on("/version", Deed::Delay(Duration::from_millis(100))));
        let mut client = Client::connect(&server, settings).await;
        client.get("/healthz", "good").await;
        let ask = async {
            while server.counts().waiting == 0 {
                tokio::task::yield_now().await;
            }
            server.go_away();
        };
        let (answer, ()) = tokio::join!(client.whole(get("/version", "good")), ask);
        assert_eq!(answer.unwrap().0, StatusCode::OK);
        let end = tokio::time::timeout(Duration::from_secs(10), client.driver).await;
        end.unwrap().unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_redirect_names_the_other_place() {
    let server = server();
    let to = "https://127.0.0.1:1/there";
    let deed = Deed::Redirect(StatusCode::TEMPORARY_REDIRECT, to.to_owned());
    server.faults().add(Fault::on("/here", deed));
    let mut client = Client::connect(&server, http1(&server, None)).await;
    let (status, headers, _) = client.whole(get("/here", "good")).await.unwrap();
    assert_eq!(status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(headers["location"], to);
}

#[tokio::test]
async fn the_date_is_moved() {
    let server = server();
    server.faults().skew_date(-3600);
    let mut client = Client::connect(&server, http2(&server, None)).await;
    let (_, headers, _) = client.whole(get("/healthz", "good")).await.unwrap();
    let date = httpdate::parse_http_date(headers["date"].to_str().unwrap()).unwrap();
    let behind = SystemTime::now().duration_since(date).unwrap();
    assert!(behind >= Duration::from_secs(3600), "{behind:?}");
}

#[tokio::test]
async fn big_bodies_stream_and_echo_comes_back() {
    let server = server();
    let mut client = Client::connect(&server, http2(&server, None)).await;
    let (_, headers, body) = client.whole(get("/big/1000001", "good")).await.unwrap();
    assert_eq!(body.len(), 1_000_001);
    assert_eq!(headers["content-length"], "1000001");
    let sent = serde_json::json!({ "a": [1, 2, 3] });
    let (_, body) = client.call("POST", "/echo", "application/json", "good", &sent).await;
    assert_eq!(body, sent);
}

#[tokio::test]
async fn a_paused_server_keeps_clients_waiting_and_serves_them_later() {
    let server = server();
    server.pause();
    let connecting = Client::try_connect(&server, http1(&server, None));
    let mut connecting = std::pin::pin!(connecting);
    let early = tokio::time::timeout(Duration::from_millis(50), connecting.as_mut()).await;
    assert!(early.is_err());
    server.resume();
    let mut client = connecting.await.unwrap();
    assert_eq!(client.get("/healthz", "good").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_stopped_server_is_gone_and_a_drained_one_finished() {
    let first = server();
    let mut client = Client::connect(&first, http2(&first, None)).await;
    client.get("/healthz", "good").await;
    let address = first.address();
    first.stop();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());

    let second = server();
    let delay = Deed::Delay(Duration::from_millis(200));
    second.faults().add(Fault::on("/version", delay));
    let mut client = Client::connect(&second, http2(&second, None)).await;
    client.get("/healthz", "good").await;
    let address = second.address();
    let ask = async {
        while second.counts().waiting == 0 {
            tokio::task::yield_now().await;
        }
        tokio::task::spawn_blocking(move || second.drain(Duration::from_secs(60))).await.unwrap()
    };
    let (answer, drained) = tokio::join!(client.whole(get("/version", "good")), ask);
    assert_eq!(answer.unwrap().0, StatusCode::OK);
    assert!(drained);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
