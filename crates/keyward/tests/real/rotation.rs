//! A certificate gives way to the next.

use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt, StreamBody};
use keyward::{Body, Client, Incoming};
use keyward_testing::{
    authority::{Issued, KeyKind},
    server::{Server, Setup, Tls, User},
};
use tokio::sync::mpsc;

use crate::support::{Desk, Plugin, status, until, within};

fn issue(server: &Server, user: &str) -> Issued {
    server.authority().client(user).issue().unwrap()
}

/// A client whose plugin answers with a certificate, and that certificate.
fn scene(setup: Setup) -> (Server, Plugin, Desk, Client, Issued) {
    let server = setup.start().unwrap();
    let plugin = Plugin::new();
    let first = issue(&server, "anna");
    plugin.answer(None, Some(&first));
    let desk = Desk::new();
    let client = desk.client(&server, &plugin.user());
    (server, plugin, desk, client, first)
}

/// An exchange that stays open for as long as what is returned is kept.
async fn watch(client: &Client) -> (mpsc::Sender<&'static str>, Incoming) {
    let (feed, receiver) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, async |mut receiver: mpsc::Receiver<_>| {
        let text: &str = receiver.recv().await?;
        let frame = http_body::Frame::data(bytes::Bytes::from(text));
        Some((Ok::<_, std::convert::Infallible>(frame), receiver))
    });
    let body = Body::stream(StreamBody::new(Box::pin(frames)));
    let response = within(client.send(Request::post("/echo").body(body).unwrap())).await.unwrap();
    assert_eq!(response.status(), 200);
    (feed, response.into_body())
}

#[tokio::test]
async fn after_a_rotation_no_connection_shows_the_old_identity() {
    for tls in [Tls::Only12, Tls::Only13] {
        let (server, plugin, _desk, client, first) = scene(Server::setup().tls(tls).only_http1());
        // Several connections and sessions that could be resumed.
        for _ in 0..3 {
            join_all((0..4).map(|_| status(&client, "/healthz"))).await;
            server.cut_connections();
            until("the connections closed", || server.counts().open == 0).await;
        }
        assert!(server.counts().resumed > 0, "sessions are resumed under one identity");

        let second = issue(&server, "anna");
        plugin.answer(None, Some(&second));
        server.users().revoke_certificate(first.serial());
        assert_eq!(status(&client, "/healthz").await, 200);
        assert_eq!(plugin.runs(), 2);

        server.recorder().clear();
        for _ in 0..3 {
            join_all((0..4).map(|_| status(&client, "/healthz"))).await;
            server.cut_connections();
            until("the connections closed", || server.counts().open == 0).await;
        }
        let records = server.recorder().all();
        assert!(records.iter().any(|record| record.resumed), "{tls:?}: sessions are resumed again");
        for record in records {
            assert_eq!(record.serial, Some(second.serial()), "{tls:?}");
        }
    }
}

#[tokio::test]
async fn a_watch_goes_on_over_a_rotation_and_its_connection_gets_nothing_new() {
    let (server, plugin, _desk, client, first) = scene(Server::setup());
    let (feed, mut body) = watch(&client).await;
    let old = server.recorder().last().unwrap().connection;

    let second = issue(&server, "anna");
    plugin.answer(None, Some(&second));
    server.users().revoke_certificate(first.serial());
    assert_eq!(status(&client, "/healthz").await, 200);
    server.recorder().clear();
    for _ in 0..10 {
        assert_eq!(status(&client, "/healthz").await, 200);
    }
    assert!(server.recorder().all().iter().all(|record| record.connection != old));

    feed.send("still here").await.unwrap();
    let frame = within(body.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "still here");
    drop((feed, body));
    until("the old connection closed", || server.counts().open == 1).await;
}

#[tokio::test]
async fn a_body_being_read_is_not_cut_by_a_rotation() {
    let (server, plugin, _desk, client, first) = scene(Server::setup());
    let mut response = within(client.get("/big/20000000")).await.unwrap();
    let start = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap().len();
    plugin.answer(None, Some(&issue(&server, "anna")));
    server.users().revoke_certificate(first.serial());
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 2);
    let rest = within(response.into_body().bytes()).await.unwrap().len();
    assert_eq!(start + rest, 20_000_000);
}

#[tokio::test]
async fn the_same_certificate_again_keeps_the_connection() {
    let server = Server::setup().start().unwrap();
    server.users().demand_both(true);
    server.users().token("one", User::new("anna"));
    let (plugin, pair) = (Plugin::new(), issue(&server, "anna"));
    plugin.answer(Some("one"), Some(&pair));
    let client = Desk::new().client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 200, "token and certificate together");

    server.users().revoke_token("one");
    server.users().token("two", User::new("anna"));
    plugin.answer(Some("two"), Some(&pair));
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 2);
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn certificates_of_every_kind_of_key_are_shown() {
    let server = Server::setup().start().unwrap();
    for key in [KeyKind::P256, KeyKind::Ed25519, KeyKind::Rsa] {
        let pair = server.authority().client("anna").key(key).issue().unwrap();
        let plugin = Plugin::new();
        plugin.answer(None, Some(&pair));
        let client = Desk::new().client(&server, &plugin.user());
        assert_eq!(status(&client, "/healthz").await, 200, "{key:?}");
        assert_eq!(server.recorder().last().unwrap().serial, Some(pair.serial()));
    }
}

#[tokio::test]
async fn three_hundred_watches_leave_room_for_other_requests() {
    let server = Server::setup().streams(100).start().unwrap();
    server.users().token("one", User::new("anna"));
    let plugin = Plugin::new();
    plugin.answer(Some("one"), None);
    let client = Desk::new().client(&server, &plugin.user());
    let watches = join_all((0..300).map(|_| watch(&client))).await;
    for _ in 0..20 {
        assert_eq!(status(&client, "/healthz").await, 200);
    }
    assert_eq!(watches.len(), 300);
    assert_eq!(plugin.runs(), 1);
}
