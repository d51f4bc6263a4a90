//! `keyward-spiffe` against SPIRE. `cargo xtask spire` builds it, which takes minutes, and runs this.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../providers/openssl.rs"]
mod openssl;
mod spire;

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, Output, Stdio},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_testing::{
    authority::Authority,
    server::{ClientCertificates, Server, User},
};
use openssl::Openssl;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use spire::{ISSUER, NODE, POD, Spire};

const AUDIENCE: &str = "https://prod.example";

/// How `keyward-spiffe` ended: its code, and what it printed.
#[derive(Debug)]
struct Ended(Option<i32>, String, String);

fn run(spire: &Spire, args: &[&str]) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_keyward-providers"))
        .arg0("keyward-spiffe")
        .args(args)
        .env_clear()
        .env("SPIFFE_ENDPOINT_SOCKET", spire.workload_api())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended(output.status.code(), text(output.stdout), text(output.stderr))
}

/// The status of the `ExecCredential`.
fn status(spire: &Spire, args: &[&str]) -> Value {
    let Ended(code, printed, errors) = run(spire, args);
    assert_eq!(code, Some(0), "{errors}");
    let credential: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(credential["kind"], "ExecCredential");
    credential["status"].clone()
}

/// One start serves all.
#[test]
fn servers_accept_the_token_and_the_certificate_that_spire_issues() {
    let authority = Arc::new(Authority::new("spire tests").unwrap());
    let mut spire = Spire::start(&authority);
    unregistered(&spire);

    let uid = fs::metadata(spire.directory()).unwrap().uid();
    let selector = format!("unix:uid:{uid}");
    let names = ["-parentID", NODE, "-spiffeID", POD, "-selector", &selector, "-dns", "workload"];
    spire.admin(&["entry", "create"], &names);
    spire.agent().wait_for(&["SVID updated", POD]);

    token(&spire);
    certificate(&spire, &authority);
    both(&spire, authority);
    gone(&mut spire);
}

/// Before the registration, the refusal says what to do, for a token as for a certificate.
fn unregistered(spire: &Spire) {
    for flag in ["--x509", "--audience=https://prod.example"] {
        let Ended(code, printed, errors) = run(spire, &[flag]);
        assert_eq!((code, printed.as_str()), (Some(4), ""), "{flag}: {errors}");
        assert!(errors.contains("issues no identity to this process"), "{flag}: {errors}");
        assert!(errors.contains("hint: register it, with SPIRE by `spire-server entry create`"));
    }
}

/// The token verifies with the keys that SPIRE publishes, and SPIRE's own verifier accepts it.
fn token(spire: &Spire) {
    let status = status(spire, &["--audience=https://prod.example"]);
    let token = status["token"].as_str().unwrap();
    let bundle = spire.admin(&["bundle", "show"], &["-format", "spiffe"]);
    let bundle: Value = serde_json::from_str(&bundle).unwrap();
    let claims = verified(token, &bundle).expect("a key of the bundle has signed it");
    assert_eq!((&claims["sub"], &claims["iss"]), (&json!(POD), &json!(ISSUER)));
    assert_eq!(claims["aud"], json!([AUDIENCE]));
    let end: jiff::Timestamp = status["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    let early = claims["exp"].as_i64().unwrap() - end.as_second();
    assert!((1..=10).contains(&early) && end > jiff::Timestamp::now(), "{status} {claims}");

    let answer = spire.validate(token, AUDIENCE);
    assert!(answer.starts_with("SVID is valid") && answer.contains(POD), "{answer}");
    // Both can say no.
    let answer = spire.validate(token, "https://other.example");
    assert!(answer.contains("SVID is not valid"), "{answer}");
    let (head, rest) = token.split_once('.').unwrap();
    let claims = URL_SAFE_NO_PAD.encode(json!({"sub": POD, "aud": AUDIENCE}).to_string());
    let forged = format!("{head}.{claims}.{}", rest.split_once('.').unwrap().1);
    assert_eq!(verified(&forged, &bundle), None);
    let answer = spire.validate(&forged, AUDIENCE);
    assert!(answer.contains("SVID is not valid"), "{answer}");
}

/// The claims of a token, if a key for tokens of this bundle has signed it.
fn verified(token: &str, bundle: &Value) -> Option<Value> {
    let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let header: Value = serde_json::from_slice(&decode(header)).unwrap();
    assert_eq!(header["alg"], "ES256");
    let keys = bundle["keys"].as_array().unwrap().iter();
    let key =
        keys.filter(|key| key["use"] == "jwt-svid").find(|key| key["kid"] == header["kid"])?;
    let part = |name| decode(key[name].as_str().unwrap());
    let point = [vec![4], part("x"), part("y")].concat();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    key.verify(signed.as_bytes(), &decode(signature)).ok()?;
    serde_json::from_slice(&decode(claims)).ok()
}

/// The certificate opens a server that trusts SPIRE's bundle and nothing else.
fn certificate(spire: &Spire, authority: &Authority) {
    let path = |name: &str| spire.directory().join(name);
    fs::write(path("ca.pem"), spire.admin(&["bundle", "show"], &[])).unwrap();
    fs::write(path("server-ca.pem"), authority.pem()).unwrap();
    let server = Openssl::start(spire.directory(), authority, "-tls1_3");
    let status = status(spire, &["--x509"]);
    fs::write(path("chain.pem"), status["clientCertificateData"].as_str().unwrap()).unwrap();
    fs::write(path("key.pem"), status["clientKeyData"].as_str().unwrap()).unwrap();
    let page = curl(spire.directory(), &server.url, &["--cert", "chain.pem", "--key", "key.pem"]);
    assert!(page.status.success(), "{page:?}");
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains(&format!("URI:{POD}")), "{page}");
    // The server can say no: to nobody, and to the same name by another authority.
    assert!(!curl(spire.directory(), &server.url, &[]).status.success());
    let other = Authority::new("another").unwrap().client("workload").issue().unwrap();
    fs::write(path("other.pem"), other.certificate_pem()).unwrap();
    fs::write(path("other.key"), other.key_pem()).unwrap();
    let other = ["--cert", "other.pem", "--key", "other.key"];
    assert!(!curl(spire.directory(), &server.url, &other).status.success());
}

/// A server like that of Kubernetes, which demands both at once, takes the user from the common name.
fn both(spire: &Spire, authority: Arc<Authority>) {
    let server = Server::setup()
        .authority(authority)
        .certificates(ClientCertificates::Demanded)
        .start()
        .unwrap();
    server.users().demand_both(true);
    let status = status(spire, &["--x509", "--audience=https://prod.example"]);
    let token = status["token"].as_str().unwrap();
    let bundle = spire.admin(&["bundle", "show"], &["-format", "spiffe"]);
    let claims = verified(token, &serde_json::from_str(&bundle).unwrap()).unwrap();
    let end = UNIX_EPOCH + Duration::from_secs(claims["exp"].as_u64().unwrap());
    server.users().token_until(token, User::new(claims["sub"].as_str().unwrap()), end);

    let path = |name: &str| spire.directory().join(name);
    fs::write(path("chain.pem"), status["clientCertificateData"].as_str().unwrap()).unwrap();
    fs::write(path("key.pem"), status["clientKeyData"].as_str().unwrap()).unwrap();
    fs::write(path("header"), format!("Authorization: Bearer {token}")).unwrap();
    let args = ["--fail", "--cert", "chain.pem", "--key", "key.pem", "--header", "@header"];
    let url = format!("{}/whoami", server.url());
    let answer = curl(spire.directory(), &url, &args);
    assert!(answer.status.success(), "{answer:?}");
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((&answer["username"], &answer["proof"]), (&json!("workload"), &json!("both")));
    let alone = curl(spire.directory(), &url, &args[..5]);
    assert!(!alone.status.success(), "{alone:?}");
}

fn curl(directory: &Path, url: &str, args: &[&str]) -> Output {
    Command::new("curl")
        .args(["--silent", "--show-error", "--cacert", "server-ca.pem"])
        .args(args)
        .arg(url)
        .current_dir(directory)
        .output()
        .expect("`curl` starts; it is in the Debian package curl")
}

/// An agent that hangs, and then one that has ended, is an error with its address and no endless wait.
fn gone(spire: &mut Spire) {
    let address = spire.workload_api();
    spire.agent().freeze();
    let Ended(code, printed, errors) = run(spire, &["--x509"]);
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{errors}");
    let hung = format!("the Workload API at `{address}` does not answer within 30 s");
    assert!(errors.contains(&hung), "{errors}");

    spire.stop_agent();
    for flag in ["--x509", "--audience=https://prod.example"] {
        let Ended(code, printed, errors) = run(spire, &[flag]);
        assert_eq!((code, printed.as_str()), (Some(1), ""), "{flag}: {errors}");
        let down = format!("the Workload API at `{address}` cannot be used: ");
        assert!(errors.contains(&down), "{flag}: {errors}");
    }
}
