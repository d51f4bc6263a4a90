//! Every key by every version, and what of it the server sees.

use keyward::Client;
use keyward_testing::{
    authority::KeyKind,
    server::{Server, Tls},
};

use super::scene;
use crate::support::{Desk, status, within};

const KEYS: [KeyKind; 4] = [KeyKind::Rsa, KeyKind::P256, KeyKind::P384, KeyKind::Ed25519];

#[tokio::test]
async fn every_key_signs_both_versions_of_tls_and_the_server_sees_the_subject() {
    for key in KEYS {
        for (tls, version) in [
            (Tls::Only12, rustls::ProtocolVersion::TLSv1_2),
            (Tls::Only13, rustls::ProtocolVersion::TLSv1_3),
        ] {
            for resident in ["false", "true"] {
                let (server, mut token) = scene(Server::setup().tls(tls), key);
                token.set("resident", resident);
                let client = Desk::new().client(&server, &token.user());
                assert_eq!(status(&client, "/api").await, 200, "{key:?} {tls:?}");
                let seen = server.recorder().last().unwrap();
                assert_eq!(seen.user.as_deref(), Some("anna"), "{key:?} {tls:?}");
                assert_eq!(seen.tls, Some(version));
                assert_eq!(token.asked("SignRequest"), 1, "{key:?} {tls:?}");
                let unlocked = usize::from(resident == "true");
                assert_eq!(token.asked("UnlockRequest"), unlocked);
            }
        }
    }
}

#[tokio::test]
async fn a_resumed_connection_needs_no_signature_unless_that_is_switched_off() {
    for (tls, resumption, signatures) in [
        (Tls::Only12, "on", 1),
        (Tls::Only13, "on", 1),
        (Tls::Only12, "off", 3),
        (Tls::Only13, "off", 3),
    ] {
        let (server, mut token) = scene(Server::setup().tls(tls), KeyKind::P256);
        token.set("resumption", resumption);
        let client = Desk::new().client(&server, &token.user());
        for round in 0..3 {
            assert_eq!(status(&client, "/api").await, 200);
            assert_eq!(server.recorder().last().unwrap().user.as_deref(), Some("anna"));
            assert_eq!(server.counts().connections, round + 1);
            server.cut_connections();
        }
        assert_eq!(token.asked("SignRequest"), signatures, "{tls:?} {resumption}");
        assert_eq!(token.asked("CertificateRequest"), 1);
    }
}

#[tokio::test]
async fn an_upgrade_goes_by_a_connection_of_its_own_that_is_signed_too() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("resumption", "off");
    let client = Desk::new().client_with(&server, &token.user(), Client::builder());
    assert_eq!(status(&client, "/api").await, 200);
    let request = http::Request::get("/upgrade-me")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .body(keyward::Body::empty())
        .unwrap();
    let response = within(client.send(request)).await.unwrap();
    assert_ne!(response.status(), 401);
    assert_eq!(server.recorder().last().unwrap().user.as_deref(), Some("anna"));
    assert_eq!(server.counts().connections, 2);
    assert_eq!(token.asked("SignRequest"), 2);
}
