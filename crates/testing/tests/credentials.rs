//! The server demands credentials and checks them.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::similar_names)]

mod common;

use std::time::{Duration, SystemTime};

use common::{Client, get, http1, http2, settings};
use http::StatusCode;
use keyward_testing::{
    authority::KeyKind,
    server::{ClientCertificates, Proof, Server, Tls, User},
};

fn server() -> Server {
    let server = Server::setup().start().unwrap();
    server.users().token("good", User::new("anna").group("dev"));
    server
}

#[tokio::test]
async fn a_request_without_credential_is_refused_with_a_status_object() {
    let server = server();
    let mut client = Client::connect(&server, http1(&server, None)).await;
    let (status, headers, body) = client.whole(get("/healthz", "")).await.unwrap();
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(headers.contains_key("www-authenticate"));
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["kind"], "Status");
    assert_eq!(body["reason"], "Unauthorized");
    assert_eq!(body["code"], 401);
}

#[tokio::test]
async fn a_token_is_accepted_in_both_protocols_until_it_is_revoked() {
    let server = server();
    for settings in [http1(&server, None), http2(&server, None)] {
        server.users().token("good", User::new("anna").group("dev"));
        let mut client = Client::connect(&server, settings).await;
        let (status, body) = client.get("/whoami", "good").await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body["username"], "anna");
        assert_eq!(body["groups"], serde_json::json!(["dev", "system:authenticated"]));
        assert!(server.users().revoke_token("good"));
        let (status, _) = client.get("/whoami", "good").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn a_token_ends_at_its_moment() {
    let server = server();
    let now = SystemTime::now();
    let user = || User::new("anna");
    server.users().token_until("past", user(), now);
    let later = now + Duration::from_secs(600);
    server.users().token_until("future", user(), later);
    let mut client = Client::connect(&server, http2(&server, None)).await;
    let (status, _) = client.get("/healthz", "past").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let (status, _) = client.get("/healthz", "future").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn replacing_the_tokens_refuses_all_others() {
    let server = server();
    server.users().replace_tokens([("new", User::new("berta"))]);
    let mut client = Client::connect(&server, http1(&server, None)).await;
    let (status, _) = client.get("/healthz", "good").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let (_, body) = client.get("/whoami", "new").await;
    assert_eq!(body["username"], "berta");
}

#[tokio::test]
async fn a_password_is_checked() {
    let server = server();
    server.users().password("anna", "secret");
    let mut client = Client::connect(&server, http1(&server, None)).await;
    for (basic, expected) in [
        ("YW5uYTpzZWNyZXQ=", StatusCode::OK),
        ("YW5uYTp3cm9uZw==", StatusCode::UNAUTHORIZED),
        ("not base64", StatusCode::UNAUTHORIZED),
    ] {
        let mut request = get("/healthz", "");
        let value = format!("Basic {basic}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
        let (status, _, _) = client.whole(request).await.unwrap();
        assert_eq!(status, expected, "{basic}");
    }
}

#[tokio::test]
async fn certificates_of_every_kind_name_the_user_and_its_groups() {
    let server = server();
    for key in [KeyKind::P256, KeyKind::Ed25519, KeyKind::Rsa] {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let issued = server
                .authority()
                .client("carla")
                .group("ops")
                .group("admins")
                .key(key)
                .issue()
                .unwrap();
            let settings = settings(&server, Some(&issued), "h2", version);
            let mut client = Client::connect(&server, settings).await;
            let (_, body) = client.get("/whoami", "").await;
            assert_eq!(body["username"], "carla", "{key:?}");
            assert_eq!(body["groups"][1], "admins");
            assert_eq!(body["serial"], issued.serial());
            assert_eq!(body["proof"], "certificate");
        }
    }
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_on_the_open_connection() {
    let server = server();
    let issued = server.authority().client("carla").issue().unwrap();
    let mut client = Client::connect(&server, http2(&server, Some(&issued))).await;
    let (status, _) = client.get("/healthz", "").await;
    assert_eq!(status, StatusCode::OK);
    server.users().revoke_certificate(issued.serial());
    let (status, _) = client.get("/healthz", "").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_expired_or_foreign_certificate_is_a_401_and_does_not_hinder_a_token() {
    let server = server();
    let now = SystemTime::now();
    let expired = server
        .authority()
        .client("carla")
        .from(now - Duration::from_secs(100))
        .until(now - Duration::from_secs(10))
        .issue()
        .unwrap();
    let foreign = keyward_testing::authority::Authority::new("other")
        .unwrap()
        .client("carla")
        .issue()
        .unwrap();
    for issued in [expired, foreign] {
        let mut client = Client::connect(&server, http1(&server, Some(&issued))).await;
        let (status, _) = client.get("/healthz", "").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        let (_, body) = client.get("/whoami", "good").await;
        assert_eq!(body["username"], "anna");
    }
}

#[tokio::test]
async fn a_certificate_can_be_demanded_by_the_handshake() {
    let server = Server::setup()
        .certificates(ClientCertificates::Demanded)
        .tls(Tls::Only12)
        .start()
        .unwrap();
    let tls12 = &rustls::version::TLS12;
    let without = settings(&server, None, "h2", tls12);
    assert!(Client::try_connect(&server, without).await.is_err());
    let issued = server.authority().client("carla").issue().unwrap();
    let with = settings(&server, Some(&issued), "h2", tls12);
    let mut client = Client::connect(&server, with).await;
    let (status, _) = client.get("/healthz", "").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(server.counts().failed, 1);
}

#[tokio::test]
async fn both_can_be_demanded_of_every_request() {
    let server = server();
    server.users().demand_both(true);
    let issued = server.authority().client("anna").issue().unwrap();
    let mut both = Client::connect(&server, http2(&server, Some(&issued))).await;
    let mut plain = Client::connect(&server, http2(&server, None)).await;
    assert_eq!(both.get("/healthz", "").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(plain.get("/healthz", "good").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(both.get("/healthz", "good").await.0, StatusCode::OK);
    assert_eq!(server.recorder().last().unwrap().proof, Some(Proof::Both));
}

#[tokio::test]
async fn impersonation_headers_change_the_user() {
    let server = server();
    let mut client = Client::connect(&server, http1(&server, None)).await;
    let mut request = get("/whoami", "good");
    for (name, value) in [
        ("impersonate-user", "dora"),
        ("impersonate-group", "one"),
        ("impersonate-group", "two"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-a%2Fb", "c"),
    ] {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, value.parse().unwrap());
    }
    let (_, _, body) = client.whole(request).await.unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["username"], "dora");
    assert_eq!(body["groups"][1], "two");
    assert_eq!(body["uid"], "7");
    assert_eq!(body["extra"]["a/b"][0], "c");
}

#[tokio::test]
async fn an_open_path_is_for_everybody() {
    let server = server();
    server.users().open("/version");
    let mut client = Client::connect(&server, http1(&server, None)).await;
    let (status, body) = client.get("/version", "").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["major"], "1");
    assert_eq!(client.get("/api", "").await.0, StatusCode::UNAUTHORIZED);
}
