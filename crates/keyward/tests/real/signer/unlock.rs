//! When a signer that stays is unlocked: before each connection that it signs, and after each start.

use keyward_testing::{
    authority::KeyKind,
    server::{Server, Tls},
    signer::Token,
};
use rustix::process::{Pid, Signal, kill_process};

use super::scene;
use crate::support::{Desk, status, until, within};

/// The kinds of what the signer was asked, in order.
fn kinds(token: &Token) -> Vec<String> {
    let kind = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    token.log().iter().map(kind).collect()
}

const TWICE: [&str; 5] =
    ["CertificateRequest", "UnlockRequest", "SignRequest", "UnlockRequest", "SignRequest"];

#[tokio::test]
async fn each_connection_that_signs_is_preceded_by_an_unlock() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("resident", "true").set("resumption", "off");
    let client = Desk::new().client(&server, &token.user());
    for _ in 0..2 {
        assert_eq!(status(&client, "/api").await, 200);
        assert_eq!(status(&client, "/api").await, 200);
        server.cut_connections();
    }
    assert_eq!(kinds(&token), TWICE);
    assert_eq!(token.pids().len(), 1);
}

#[tokio::test]
async fn a_signer_that_died_between_two_connections_is_unlocked_before_the_second() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("resident", "true").set("resumption", "off");
    let client = Desk::new().client(&server, &token.user());
    assert_eq!(status(&client, "/api").await, 200);
    server.cut_connections();
    let pid = i32::try_from(token.alive()[0]).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until("its end", || token.alive().is_empty()).await;
    assert_eq!(status(&client, "/api").await, 200);
    assert_eq!(kinds(&token), TWICE);
    assert_eq!(server.counts().connections, 2);
}

#[tokio::test]
async fn a_signer_that_dies_over_a_signature_is_unlocked_before_the_next_try() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    let once = token.file("once").display().to_string();
    token.set("resident", "true").set("fault", "die").set("faultOnce", &once);
    let client = Desk::new().client(&server, &token.user());
    assert_eq!(status(&client, "/api").await, 200);
    assert_eq!(kinds(&token), TWICE);
}

#[tokio::test]
async fn a_signer_that_talked_nonsense_is_unlocked_when_it_is_started_again() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    let once = token.file("once").display().to_string();
    token.set("resident", "true").set("fault", "garbage").set("faultOnce", &once);
    let client = Desk::new().client(&server, &token.user());
    within(client.get("/api")).await.unwrap_err();
    assert_eq!(status(&client, "/api").await, 200);
    assert_eq!(kinds(&token), TWICE);
}

#[tokio::test]
async fn a_resumed_connection_asks_for_no_unlock() {
    for tls in [Tls::Only12, Tls::Only13] {
        let (server, mut token) = scene(Server::setup().tls(tls), KeyKind::P256);
        token.set("resident", "true");
        let client = Desk::new().client(&server, &token.user());
        for _ in 0..3 {
            assert_eq!(status(&client, "/api").await, 200);
            server.cut_connections();
        }
        assert_eq!(kinds(&token), TWICE[..3], "{tls:?}");
        assert_eq!(server.counts().connections, 3);
    }
}

#[tokio::test]
async fn a_server_that_resumes_nothing_waits_for_no_unlock() {
    let (server, mut token) = scene(Server::setup().forgetful().tls(Tls::Only13), KeyKind::P256);
    token.set("resident", "true");
    let client = Desk::new().client(&server, &token.user());
    assert_eq!(status(&client, "/api").await, 200);
    server.cut_connections();
    assert_eq!(status(&client, "/api").await, 200);
    // The handshake that came upon a locked signer was given up for another.
    assert_eq!(kinds(&token), TWICE);
    assert_eq!(server.counts().connections, 3);
}
