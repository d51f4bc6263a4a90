//! The four messages of the original proposal, word for word.
#![allow(clippy::unwrap_used, missing_docs)]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_protocol::{
    Node,
    signer::{
        CertificateResponse, Configuration, Hash, MessageError, Options, Request, Response,
        SignRequest,
    },
};

const CERTIFICATE_REQUEST: &str = include_str!("signer/certificate-request.json");
const CERTIFICATE_RESPONSE: &str = include_str!("signer/certificate-response.json");
const SIGN_REQUEST: &str = include_str!("signer/sign-request.json");
const SIGN_RESPONSE: &str = include_str!("signer/sign-response.json");

/// What the proposal's kubeconfig says.
fn configuration() -> Configuration {
    [
        ("pathExec", "/path/to/externalSigner"),
        ("pathLib", "/path/to/library.so"),
        ("objectId", "2"),
        ("slotId", "0"),
        ("pin", "123456"),
    ]
    .into_iter()
    .collect()
}

fn sign_request() -> Request {
    let digest = STANDARD.decode("TqRUvJjLvlp3g9B3elpfzfgrSbukXBP5txkBLIkCSs4=").unwrap();
    let options = Options::Pss(Hash::Sha256);
    Request::Sign(SignRequest { configuration: configuration(), digest, options })
}

/// The message without white space.
fn compact(message: &str) -> String {
    Node::from_json(message.as_bytes()).unwrap().to_json()
}

#[test]
fn the_requests_are_written_and_read_as_proposed() {
    for (golden, request) in [
        (CERTIFICATE_REQUEST, Request::Certificate(configuration())),
        (SIGN_REQUEST, sign_request()),
    ] {
        assert_eq!(request.to_json().expose(), compact(golden));
        assert_eq!(Request::read(golden.as_bytes()).unwrap(), request);
    }
}

#[test]
fn the_responses_are_written_and_read_as_proposed() {
    let certificate =
        CertificateResponse { certificate: b"some DER".to_vec(), chain: vec![], prompt: None };
    for (golden, place, bytes, response) in [
        (
            CERTIFICATE_RESPONSE,
            "(CERTIFICATE BASE64 ENCODED)",
            "some DER",
            Response::Certificate(certificate),
        ),
        (
            SIGN_RESPONSE,
            "(SIGNATURE BASE64 ENCODED)",
            "some bytes",
            Response::Sign(b"some bytes".to_vec()),
        ),
    ] {
        assert!(golden.contains(place));
        let filled = golden.replace(place, &STANDARD.encode(bytes));
        assert_eq!(response.to_json(), compact(&filled));
        assert_eq!(Response::read(filled.as_bytes()).unwrap(), response);
        // The sample itself has a text there that is no Base64.
        let error = Response::read(golden.as_bytes()).unwrap_err();
        assert!(matches!(error, MessageError::Unreadable(_)));
    }
}

#[test]
fn the_request_kinds_of_the_first_implementation_are_read() {
    for (golden, kind, older) in [
        (CERTIFICATE_REQUEST, "CertificateRequest", "Certificate"),
        (SIGN_REQUEST, "SignRequest", "Sign"),
    ] {
        let text = golden.replace(&format!("\"{kind}\""), &format!("\"{older}\""));
        assert_ne!(text, golden);
        let read = Request::read(text.as_bytes()).unwrap();
        assert_eq!(read, Request::read(golden.as_bytes()).unwrap());
        assert_eq!(read.kind(), kind);
    }
}
