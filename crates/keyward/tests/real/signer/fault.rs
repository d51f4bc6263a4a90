//! What a signer can do wrong, and what a server can say to a good one: each an error with its own
//! words.

use std::{sync::Arc, time::Duration};

use keyward::{Client, Error, Kind};
use keyward_host::{Kind as Why, PlanSettings};
use keyward_testing::{
    authority::{Authority, KeyKind},
    server::{ClientCertificates, Server, Setup, Tls},
    signer::Token,
};
use serde_json::Value;

use super::scene;
use crate::support::{Desk, GUARD, status, target, within};

/// More than a busy machine needs, and less than the guard.
const BUDGET: Duration = Duration::from_secs(2);

/// The error of a request with this user, everything it says in one text.
async fn fails(server: &Server, user: &Value, budget: Duration) -> (Error, String) {
    let mut settings = PlanSettings::default();
    settings.person = false;
    settings.unattended = budget;
    let desk = Desk::new();
    let target = target(&server.kubeconfig(user));
    let client = Client::builder().plan(settings);
    let client =
        client.open(&target, &keyward_host::rules::Rules::default(), &desk.sources).unwrap();
    let error = within(client.get("/api")).await.unwrap_err();
    let host = error.credential().expect("the host's own error").clone();
    let said = format!("{host} {:?} {:?} {:?}", host.notes(), host.hint(), host.stderr());
    (error, said)
}

#[tokio::test]
async fn every_fault_of_a_signer_is_told_apart() {
    let other = Authority::new("others").unwrap().client("eve").issue().unwrap();
    for (fault, at, kind, words) in [
        ("garbage", "sign", Why::BadAnswer, "no message of the signer protocol"),
        ("nothing", "sign", Why::BadAnswer, "answered nothing"),
        ("kind", "sign", Why::BadAnswer, "no message of the signer protocol"),
        ("version", "sign", Why::BadAnswer, "no message of the signer protocol"),
        ("mixed-up", "sign", Why::BadAnswer, "answered a `SignRequest` with a `UnlockResponse`"),
        ("truncated", "sign", Why::BadAnswer, "no message of the signer protocol"),
        ("endless", "sign", Why::BadAnswer, "printed too much"),
        ("fail", "sign", Why::Failed, "exit code 3"),
        ("die", "sign", Why::Failed, "signal 6"),
        ("wrong-signature", "sign", Why::BadAnswer, "not made with the certificate's key"),
        ("other-key", "sign", Why::BadAnswer, "not made with the certificate's key"),
        ("garbage", "certificate", Why::BadAnswer, "no message of the signer protocol"),
        ("truncated", "certificate", Why::BadAnswer, "no message of the signer protocol"),
        ("no-certificate", "certificate", Why::BadAnswer, "malformed"),
        ("mixed-up", "certificate", Why::BadAnswer, "answered a `CertificateRequest` with"),
    ] {
        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        let key = token.write("other", other.key_pem());
        token.set("fault", fault).set("faultAt", at).set("otherKey", &key);
        let (error, said) = fails(&server, &token.user(), GUARD).await;
        assert_eq!(error.kind(), Kind::Credential, "{fault}");
        assert_eq!(error.credential().unwrap().kind(), kind, "{fault}: {said}");
        assert!(said.contains(words), "{fault}: {said}");
        assert!(said.contains("needed by"), "{fault}: {said}");
        assert_eq!(server.counts().requests, 0, "{fault}");
        assert!(token.asked("SignRequest") <= 1, "{fault}: {:?}", token.log());
        assert_eq!(token.alive(), [0; 0], "{fault}");
    }
}

#[tokio::test]
async fn a_certificate_of_another_key_is_found_out_before_the_server_is() {
    for key in [KeyKind::Rsa, KeyKind::P256, KeyKind::P384, KeyKind::Ed25519] {
        let (server, mut token) = scene(Server::setup(), key);
        // RSA has but one key here, so its certificate gets a key of another kind.
        let kind = if key == KeyKind::Rsa { KeyKind::P256 } else { key };
        let authority = Authority::new("others").unwrap();
        let other = authority.client("eve").key(kind).issue().unwrap();
        let file = token.write("other", other.key_pem());
        token.set("key", &file);
        let (_, said) = fails(&server, &token.user(), GUARD).await;
        let expected =
            if key == KeyKind::Rsa { "cannot do what it was asked" } else { "certificate's key" };
        assert!(said.contains(expected), "{key:?}: {said}");
    }
}

#[tokio::test]
async fn a_chain_with_something_else_in_it_is_not_shown() {
    const JUNK: &str = "-----BEGIN CERTIFICATE-----\nbm90IERFUg==\n-----END CERTIFICATE-----\n";
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    let leaf = std::fs::read_to_string(token.file("certificate")).unwrap();
    let chain = token.write("chain", &format!("{leaf}\n{leaf}\n{JUNK}"));
    token.set("certificate", &chain);
    let (_, said) = fails(&server, &token.user(), GUARD).await;
    assert!(said.contains("`certificateChain` whose entry 1 is malformed"), "{said}");
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test]
async fn a_certificate_that_has_ended_is_not_shown() {
    let authority = Arc::new(Authority::new("signers").unwrap());
    let past = std::time::SystemTime::now() - Duration::from_secs(3600);
    let issued =
        authority.client("anna").from(past - Duration::from_secs(60)).until(past).issue().unwrap();
    let server = Server::setup().authority(authority).start().unwrap();
    let (_, said) = fails(&server, &Token::new(&issued).user(), GUARD).await;
    assert!(said.contains("expired at"), "{said}");
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test]
async fn a_signer_that_hangs_is_ended_at_its_budget() {
    for (resident, at) in [
        ("false", "sign"),
        ("false", "certificate"),
        ("true", "certificate"),
        ("true", "unlock"),
        ("true", "sign"),
    ] {
        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        token.set("resident", resident).set("fault", "hang").set("faultAt", at);
        let (error, said) = fails(&server, &token.user(), BUDGET).await;
        assert_eq!(error.credential().unwrap().kind(), Why::TimedOut, "{resident} {at}: {said}");
        assert_eq!(token.alive(), [0; 0], "{resident} {at}");
    }
}

#[tokio::test]
async fn a_resident_signer_that_is_gone_is_started_once_more() {
    for at in ["certificate", "unlock", "sign"] {
        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        let once = token.file("once").display().to_string();
        token.set("resident", "true").set("fault", "die").set("faultAt", at);
        token.set("faultOnce", &once);
        let client = Desk::new().client(&server, &token.user());
        assert_eq!(status(&client, "/api").await, 200, "{at}");
        assert_eq!(token.pids().len(), 2, "{at}");

        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        token.set("resident", "true").set("fault", "die").set("faultAt", at);
        let (_, said) = fails(&server, &token.user(), GUARD).await;
        assert!(said.contains("ended before it answered, twice"), "{at}: {said}");
        assert_eq!(token.pids().len(), 2, "{at}");
    }
}

/// A server that trusts other authorities than the certificate's.
fn stranger(setup: Setup) -> (Server, Token) {
    let issued = Authority::new("elsewhere").unwrap().client("anna").issue().unwrap();
    let server = setup.certificates(ClientCertificates::Demanded).start().unwrap();
    (server, Token::new(&issued))
}

#[tokio::test]
async fn a_certificate_the_server_refuses_is_reported_as_that() {
    for tls in [Tls::Only12, Tls::Only13] {
        for setup in [Server::setup(), Server::setup().only_http1()] {
            let (server, token) = stranger(setup.tls(tls));
            let (error, said) = fails(&server, &token.user(), GUARD).await;
            assert_eq!(error.kind(), Kind::Credential, "{tls:?}: {error:?}");
            assert!(said.contains("did not accept the certificate of `anna`"), "{tls:?}: {said}");
            assert!(said.contains("alert"), "{tls:?}: {said}");
            assert_eq!(token.asked("SignRequest"), 1, "{tls:?}: {:?}", token.log());
        }
    }
}

#[tokio::test]
async fn a_refused_certificate_with_its_key_is_reported_as_that_too() {
    for tls in [Tls::Only12, Tls::Only13] {
        for setup in [Server::setup(), Server::setup().only_http1()] {
            let issued = Authority::new("elsewhere").unwrap().client("anna").issue().unwrap();
            let setup = setup.tls(tls).certificates(ClientCertificates::Demanded);
            let server = setup.start().unwrap();
            let user = serde_json::json!({
                "client-certificate-data": base64(issued.certificate_pem()),
                "client-key-data": base64(issued.key_pem()),
            });
            let client = Desk::new().client(&server, &user);
            let error = within(client.get("/api")).await.unwrap_err();
            assert!(error.to_string().contains("did not accept the client certificate"), "{error}");
            assert_eq!(error.kind(), Kind::Connect);
        }
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[tokio::test]
async fn a_wrong_pin_is_tried_once_and_never_shown() {
    const PIN: &str = "m4rked-p1n-9173";
    for resident in ["false", "true"] {
        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        token.set("resident", resident).set("pin", PIN).set("rightPin", "another-1234");
        let client = Desk::new().client(&server, &token.user());
        for _ in 0..20 {
            let error = within(client.get("/api")).await.unwrap_err();
            let host = error.credential().unwrap();
            let said = format!("{error} {error:?} {host} {host:?} {:?}", host.stderr());
            assert!(!said.contains(PIN), "{said}");
            assert!(said.contains("the PIN is wrong"), "{said}");
            assert!(host.hint().unwrap().contains("not tried again"));
        }
        assert_eq!(token.asked("Login"), 1, "{:?}", token.log());
        assert!(!format!("{client:?}").contains(PIN));
    }
}
