#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

fn configuration() -> Configuration {
    [("pin", "s3cr3t"), ("a", "<\n\"")].into_iter().collect()
}

fn sign(options: Options) -> Request {
    let digest = vec![7; options.hash().map_or(130, Hash::length)];
    Request::Sign(SignRequest { configuration: configuration(), digest, options })
}

fn all_options() -> impl Iterator<Item = Options> {
    let hashed = |hash| [Options::Pss(hash), Options::Digest(hash)];
    Hash::ALL.into_iter().flat_map(hashed).chain([Options::Message])
}

fn refusal(text: &str) -> String {
    Request::read(text.replace("VERSION", API_VERSION).as_bytes()).unwrap_err().to_string()
}

fn sign_with(kind: &str, options: &str, digest: &str) -> String {
    let mut text = String::from(r#"{"apiVersion":"VERSION","kind":"SignRequest","digest":"#);
    crate::json::push_text(&mut text, digest);
    text.push_str(",\"signerOptsType\":");
    crate::json::push_text(&mut text, kind);
    text.push_str(",\"signerOpts\":");
    crate::json::push_text(&mut text, options);
    text.push('}');
    text
}

#[test]
fn a_request_that_was_written_reads_the_same() {
    let mut requests: Vec<Request> = all_options().map(sign).collect();
    requests.push(Request::Certificate(configuration()));
    requests.push(Request::Unlock(configuration()));
    requests.push(Request::Session);
    for request in requests {
        let text = request.to_json();
        assert!(!text.expose().contains('\n'), "one line, whatever is in it");
        assert_eq!(Request::read(text.expose().as_bytes()).unwrap(), request);
    }
}

#[test]
fn a_response_that_was_written_reads_the_same() {
    let chain = vec![vec![2, 3], vec![4]];
    let prompt = Some("touch the \"key\"\nnow".to_owned());
    for response in [
        Response::Certificate(CertificateResponse { certificate: vec![1], chain, prompt }),
        Response::Sign(vec![0xff; 256]),
        Response::Unlock,
        Response::Error(ErrorResponse { reason: Reason::WrongPin, message: "no".into() }),
    ] {
        let text = response.to_json();
        assert!(!text.contains('\n'));
        assert_eq!(Response::read(text.as_bytes()).unwrap(), response);
    }
}

#[test]
fn the_options_are_spelt_as_go_spells_them() {
    let spelt = |options: Options| format!("{} {}", options.kind(), options.value());
    assert_eq!(spelt(Options::Pss(Hash::Sha384)), r#"*rsa.PSSOptions {"SaltLength":-1,"Hash":6}"#);
    assert_eq!(spelt(Options::Digest(Hash::Sha512)), "crypto.Hash 7");
    assert_eq!(spelt(Options::Message), "crypto.Hash 0");
}

#[test]
fn only_a_salt_as_long_as_the_hash_is_read() {
    let digest = STANDARD.encode([0; 32]);
    let salt = |length: &str| {
        let options = format!(r#"{{"SaltLength":{length},"Hash":5}}"#);
        let text = sign_with("*rsa.PSSOptions", &options, &digest).replace("VERSION", API_VERSION);
        Request::read(text.as_bytes())
    };
    for right in ["-1", "32"] {
        assert!(salt(right).is_ok(), "{right}");
    }
    for wrong in ["0", "20", "-2", "64"] {
        assert!(salt(wrong).unwrap_err().to_string().contains("SaltLength"), "{wrong}");
    }
}

#[test]
fn what_cannot_be_signed_is_refused() {
    let digest = STANDARD.encode([0; 32]);
    for (text, why) in [
        (
            sign_with("crypto.Hash", "6", &digest),
            "`digest` has 32 bytes, a digest of SHA-384 has 48",
        ),
        (sign_with("crypto.Hash", "3", &digest), "a hash other than"),
        (sign_with("crypto.Hash", "x", &digest), "not JSON in a text"),
        (sign_with("rsa.Other", "5", &digest), "`signerOptsType` is neither"),
        (sign_with("crypto.Hash", "5", "AAA"), "`digest` must be standard Base64"),
        (sign_with("crypto.Hash", "5", ""), "`digest` is empty"),
        (r#"{"apiVersion":"VERSION","kind":"SignRequest"}"#.into(), "`digest` is missing"),
        (r#"{"apiVersion":"VERSION","kind":"Other"}"#.into(), "`kind` is not one"),
        (r#"{"apiVersion":"VERSION"}"#.into(), "`kind` is missing"),
        (r#"{"kind":"CertificateRequest"}"#.into(), "`apiVersion` is not"),
        ("[]".into(), "must be a mapping"),
        (" \n".into(), "there is no message"),
        ("{".into(), "the document ends"),
    ] {
        let error = refusal(&text);
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn base64_may_be_broken_into_lines() {
    let text = format!(
        r#"{{"apiVersion":"{API_VERSION}","kind":"SignResponse","signature":"AA\nEC\r\n"}}"#
    );
    assert_eq!(Response::read(text.as_bytes()).unwrap(), Response::Sign(vec![0, 1, 2]));
}

#[test]
fn a_reason_nobody_knows_is_a_failure() {
    let text = format!(r#"{{"apiVersion":"{API_VERSION}","kind":"ErrorResponse","reason":"New"}}"#);
    let Response::Error(error) = Response::read(text.as_bytes()).unwrap() else { panic!() };
    assert_eq!((error.reason, error.message.as_str()), (Reason::Failed, ""));
}

#[test]
fn neither_debug_nor_an_error_shows_a_pin() {
    let shown = format!("{:?}", sign(Options::Message));
    assert!(shown.contains("\"pin\": [hidden]") && !shown.contains("s3cr3t"), "{shown}");
    let text = format!(
        r#"{{"apiVersion":"{API_VERSION}","kind":"Sign","configuration":{{"pin":["s3cr3t"]}}}}"#
    );
    let error = Request::read(text.as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("`configuration.pin` must be a text"));
    assert!(!format!("{error} {error:?}").contains("s3cr3t"));
}
