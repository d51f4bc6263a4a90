//! A server says no.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures_util::future::join_all;
use http::{Request, StatusCode, header::AUTHORIZATION};
use http_body_util::Full;
use keyward::{Body, Client};
use keyward_testing::server::{Deed, Fault, Server, User};

use crate::support::{Desk, Plugin, status, until, within};

/// A server that knows `good`, and a plugin that answers `first`.
fn scene(first: &str) -> (Server, Plugin, Desk) {
    let server = Server::setup().start().unwrap();
    let plugin = Plugin::new();
    plugin.answer(Some(first), None);
    (server, plugin, Desk::new())
}

#[tokio::test]
async fn a_revoked_token_is_healed_before_the_caller_sees_it() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 1);

    server.users().revoke_token("one");
    server.users().token("two", User::new("anna"));
    plugin.answer(Some("two"), None);
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 2);
    assert_eq!(server.counts().connections, 1, "a new token keeps the connection");
}

/// Replaces the server's token and the plugin's answer.
fn revoke(server: &Server, plugin: &Plugin, number: usize) {
    server.users().token(&format!("token-{}", number + 1), User::new("anna"));
    plugin.answer(Some(&format!("token-{}", number + 1)), None);
    server.users().revoke_token(&format!("token-{number}"));
}

#[tokio::test]
async fn a_revocation_in_the_moment_after_a_healed_one_is_healed_too() {
    let (server, plugin, desk) = scene("token-0");
    server.users().token("token-0", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    for number in 0..20 {
        assert_eq!(status(&client, "/healthz").await, 200, "round {number}");
        revoke(&server, &plugin, number);
    }
    assert_eq!(plugin.runs(), 20);
}

#[tokio::test]
async fn requests_under_way_survive_revocations_in_a_row() {
    let (server, plugin, desk) = scene("token-0");
    server.users().token("token-0", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 200);
    for number in (0..40).step_by(2) {
        revoke(&server, &plugin, number);
        let answered = Cell::new(0);
        let requests = join_all((0..50).map(|_| async {
            let seen = status(&client, "/healthz").await;
            answered.set(answered.get() + 1);
            seen
        }));
        let again = async {
            // The client has seen that the second token is accepted: revoke that one, too.
            until("a request with the new token", || answered.get() > 0).await;
            revoke(&server, &plugin, number + 1);
        };
        let (seen, ()) = tokio::join!(requests, again);
        let refused = seen.iter().filter(|seen| **seen == 401).count();
        assert_eq!(refused, 0, "round {number}");
        assert_eq!(status(&client, "/healthz").await, 200, "round {number}");
    }
}

#[tokio::test]
async fn a_thousand_refused_at_once_share_one_renewal() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 200);

    server.users().revoke_token("one");
    server.users().token("two", User::new("anna"));
    plugin.answer(Some("two"), None);
    let seen = join_all((0..1000).map(|_| status(&client, "/healthz"))).await;
    assert!(seen.iter().all(|status| *status == 200));
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_body_in_memory_is_sent_again_whole() {
    let (server, plugin, desk) = scene("stale");
    server.users().token("good", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 401);
    plugin.answer(Some("good"), None);
    desk.clock.advance(Duration::from_secs(2));

    let request = Request::post("/echo").body("say it twice").unwrap();
    let response = within(client.send(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.into_body().text().await.unwrap(), "say it twice");
}

#[tokio::test]
async fn a_streaming_body_gets_its_401_and_the_next_call_is_fresh() {
    let (server, plugin, desk) = scene("stale");
    server.users().token("good", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    // A first answer that the plugin itself will take back.
    let stream = || Body::stream(Full::<bytes::Bytes>::from("once"));
    let request = Request::post("/echo").body(stream()).unwrap();
    let response = within(client.send(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(plugin.runs(), 1, "nobody waits for a renewal that cannot help");

    plugin.answer(Some("good"), None);
    let request = Request::post("/echo").body(stream()).unwrap();
    let response = within(client.send(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(plugin.runs(), 2);
}

/// A thousand requests that are always refused: first and second credential, and no more until the
/// backoff is over.
async fn always_refused(status_code: StatusCode, client: &Client, plugin: &Plugin, desk: &Desk) {
    for _ in 0..10 {
        let seen = join_all((0..100).map(|_| status(client, "/healthz"))).await;
        assert!(seen.iter().all(|seen| *seen == status_code.as_u16()));
    }
    assert_eq!(plugin.runs(), 2);
    desk.clock.advance(Duration::from_secs(2));
    assert_eq!(status(client, "/healthz").await, status_code.as_u16());
    assert!((2..=3).contains(&plugin.runs()), "{} runs", plugin.runs());
}

#[tokio::test]
async fn a_server_that_always_says_401_does_not_keep_the_plugin_busy() {
    let (server, plugin, desk) = scene("unknown");
    let client = desk.client(&server, &plugin.user());
    always_refused(StatusCode::UNAUTHORIZED, &client, &plugin, &desk).await;
    assert!(server.counts().status(401) >= 1000);
}

#[tokio::test]
async fn a_403_renews_where_that_is_wanted_within_the_same_back_off() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    server.faults().add(Fault::always(Deed::Answer(StatusCode::FORBIDDEN)));
    let builder = Client::builder().refresh_on_403();
    let client = desk.client_with(&server, &plugin.user(), builder);
    always_refused(StatusCode::FORBIDDEN, &client, &plugin, &desk).await;
}

#[tokio::test]
async fn a_403_is_the_callers_business_otherwise() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    server.faults().add(Fault::always(Deed::Answer(StatusCode::FORBIDDEN)));
    let client = desk.client(&server, &plugin.user());
    for _ in 0..5 {
        assert_eq!(status(&client, "/healthz").await, 403);
    }
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn without_replay_the_caller_gets_the_401_and_the_next_one_does_not() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    let builder = Client::builder().without_replay();
    let client = desk.client_with(&server, &plugin.user(), builder);
    assert_eq!(status(&client, "/healthz").await, 200);
    server.users().revoke_token("one");
    server.users().token("two", User::new("anna"));
    plugin.answer(Some("two"), None);
    assert_eq!(status(&client, "/healthz").await, 401);
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_renewal_that_brings_the_same_token_sends_nothing_again() {
    let (server, plugin, desk) = scene("unknown");
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 401);
    assert_eq!(plugin.runs(), 2);
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn a_renewal_that_fails_leaves_the_caller_with_the_401() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 200);
    server.users().revoke_token("one");
    plugin.fail(true);
    assert_eq!(status(&client, "/healthz").await, 401);
}

#[tokio::test]
async fn a_request_with_its_own_authorization_is_left_alone() {
    let (server, plugin, desk) = scene("one");
    server.users().token("theirs", User::new("bob"));
    let client = desk.client(&server, &plugin.user());
    let send = |token: &str| {
        let request = Request::get("/healthz").header(AUTHORIZATION, format!("Bearer {token}"));
        client.send(request.body(Body::empty()).unwrap())
    };
    assert_eq!(within(send("theirs")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(within(send("wrong")).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test]
async fn a_v1alpha1_plugin_is_told_of_the_refusal() {
    let server = Server::setup().start().unwrap();
    let plugin = Plugin::speaking("client.authentication.k8s.io/v1alpha1");
    plugin.answer(Some("unknown"), None);
    let desk = Desk::new();
    let client = desk.client(&server, &plugin.user());
    assert_eq!(status(&client, "/healthz").await, 401);
    let told = plugin.told();
    assert_eq!(told["spec"]["response"]["code"], 401, "{told}");
    assert!(told["spec"]["response"]["header"]["Content-Type"].is_array(), "{told}");
}

#[tokio::test]
async fn a_connection_cut_under_an_idle_client_is_not_the_callers_problem() {
    let (server, plugin, desk) = scene("one");
    server.users().token("one", User::new("anna"));
    let client = desk.client(&server, &plugin.user());
    for _ in 0..20 {
        assert_eq!(status(&client, "/healthz").await, 200);
        server.cut_connections();
        crate::support::until("the connection closed", || server.counts().open == 0).await;
    }
    let held = Arc::new(client);
    assert_eq!(status(&held, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 1);
}
