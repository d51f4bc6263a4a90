//! How often a signer is asked.

use futures_util::future::join_all;
use keyward::Client;
use keyward_testing::{authority::KeyKind, server::Server};

use super::scene;
use crate::support::{Desk, status};

#[tokio::test]
async fn twenty_cold_requests_at_once_cost_one_signature() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("delay", "100");
    let client = Desk::new().client(&server, &token.user());
    let statuses = join_all((0..20).map(|_| status(&client, "/api"))).await;
    assert_eq!(statuses, [200; 20]);
    assert_eq!(token.log().len(), 2, "{:?}", token.log());
    assert_eq!(token.asked("CertificateRequest"), 1);
    assert_eq!(token.asked("SignRequest"), 1);
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn twenty_fresh_handshakes_cost_one_certificate_and_twenty_signatures() {
    for resident in ["false", "true"] {
        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        token.set("resident", resident).set("resumption", "off");
        let desk = Desk::new();
        let first = desk.client(&server, &token.user());
        assert_eq!(status(&first, "/api").await, 200);
        // Clients of one identity share its certificate, but no connections.
        for _ in 1..20 {
            let client = desk.client(&server, &token.user());
            assert_eq!(status(&client, "/api").await, 200);
        }
        assert_eq!(token.asked("CertificateRequest"), 1);
        assert_eq!(token.asked("SignRequest"), 20);
        assert_eq!(server.counts().handshakes, 20);
        let runs = if resident == "true" { 1 } else { 21 };
        assert_eq!(token.pids().len(), runs);
    }
}

#[tokio::test]
async fn a_server_without_http2_does_not_make_a_herd_of_signatures() {
    let (server, mut token) = scene(Server::setup().only_http1(), KeyKind::P256);
    token.set("delay", "300").set("resumption", "off");
    let client = Desk::new().client(&server, &token.user());
    let statuses = join_all((0..20).map(|_| status(&client, "/api"))).await;
    assert_eq!(statuses, [200; 20]);
    // The first connection serves all while a second one is being signed.
    assert!(token.asked("SignRequest") <= 4, "{:?}", token.log());
}

#[tokio::test]
async fn a_certificate_that_did_not_change_keeps_its_connections() {
    let (server, token) = scene(Server::setup(), KeyKind::P256);
    let client = Desk::new().client_with(&server, &token.user(), Client::builder());
    assert_eq!(status(&client, "/api").await, 200);
    server.users().revoke_certificate(server.recorder().last().unwrap().serial.unwrap());
    // Refused, asked again, answered the same: the caller gets the refusal, and no new handshake.
    assert_eq!(status(&client, "/api").await, 401);
    assert_eq!(token.asked("CertificateRequest"), 2);
    assert_eq!(token.asked("SignRequest"), 1);
    assert_eq!(server.counts().connections, 1);
}
