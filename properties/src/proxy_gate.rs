//! The proxy's gate: whatever is sent, nobody gets through as somebody else.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, uri::Scheme};

use crate::budget;

#[path = "../../crates/proxy/src/gate.rs"]
#[allow(dead_code, reason = "the program may use more of it")]
mod gate;
#[path = "../../crates/proxy/src/refusal.rs"]
#[allow(dead_code, reason = "the program refuses in other places too")]
mod refusal;

use gate::{Allowed, Gate};

const NAMES: [&str; 2] = ["127.0.0.1:8443", "localhost:8443"];

/// The first line is method, target and version, as in HTTP/1.1; each other line is a header. What
/// no HTTP library would take is not looked at.
pub(crate) fn check(input: &[u8]) {
    let Some(request) = request(input) else { return };
    let strict = gate(Allowed::default());
    let lenient = gate(Allowed { authorization: true, impersonation: true });
    let verdict = budget::within(input, || strict.check(&request));
    let target = gate::target(request.method(), request.uri());
    if lenient.check(&request).is_err() {
        assert!(verdict.is_err(), "what is never allowed was let through");
    }
    if verdict.is_err() {
        return;
    }
    unambiguous(&request);
    nobody_else(request.headers());
    if let Ok(target) = target {
        let text = target.to_string();
        assert!(text.starts_with('/') || text == "*", "a target without a path");
        assert!(target.authority().is_none(), "a target that names a host");
    }
    // One more header, and it is refused.
    for (name, value) in [
        ("authorization", "Bearer x"),
        ("proxy-authorization", "Basic x"),
        ("impersonate-user", "ann"),
        ("impersonate-extra-x", ""),
        ("x-remote-group", "system:masters"),
        ("host", "localhost:8443"),
        ("content-length", "7, 7"),
        ("transfer-encoding", "gzip"),
        ("connection", "authorization"),
        ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.eA"),
    ] {
        let mut worse = request.clone();
        worse.headers_mut().append(name, HeaderValue::from_static(value));
        // A request over HTTP/2 may have the host in its target alone; naming us twice is fine then.
        if name == "host" && !request.headers().contains_key("host") {
            continue;
        }
        assert!(strict.check(&worse).is_err(), "`{name}: {value}` was let through");
    }
}

fn gate(allowed: Allowed) -> Gate {
    Gate { names: NAMES.map(str::to_owned).to_vec(), scheme: Scheme::HTTPS, allowed }
}

/// Asserts that a request names only us, and that any two servers would read it the same way.
fn unambiguous(request: &Request<()>) {
    let headers = request.headers();
    assert_ne!(request.method(), Method::CONNECT);
    let ours = |host: &[u8]| NAMES.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host));
    let authority = request.uri().authority();
    assert!(headers.get_all("host").iter().all(|host| ours(host.as_bytes())));
    assert!(authority.is_none_or(|authority| ours(authority.as_str().as_bytes())));
    assert!(headers.get_all("host").iter().count() + usize::from(authority.is_some()) > 0);
    for name in ["content-length", "transfer-encoding", "upgrade", "host"] {
        assert!(headers.get_all(name).iter().count() <= 1, "`{name}` twice");
    }
    if let Some(length) = headers.get("content-length") {
        let text = length.to_str().expect("a number is a text");
        assert!(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    }
    if let Some(upgrade) = headers.get("upgrade") {
        let wanted = upgrade.to_str().expect("a protocol is a text").trim().to_ascii_lowercase();
        assert!(matches!(wanted.as_str(), "websocket" | "spdy/3.1"));
        assert_eq!(request.version(), Version::HTTP_11);
    }
}

fn nobody_else(headers: &HeaderMap) {
    for (name, value) in headers {
        let name = name.as_str();
        assert!(!matches!(name, "authorization" | "proxy-authorization"));
        assert!(!name.starts_with("impersonate-") && !name.starts_with("x-remote-"));
        let value = String::from_utf8_lossy(value.as_bytes());
        if name == "sec-websocket-protocol" {
            assert!(!value.split(',').any(|protocol| {
                protocol.trim().starts_with("base64url.bearer.authorization.k8s.io.")
            }));
        }
    }
}

fn request(input: &[u8]) -> Option<Request<()>> {
    let mut lines = input.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let mut words = first.split(|byte| *byte == b' ');
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(words.next()?).ok()?;
    *request.uri_mut() = Uri::try_from(words.next()?).ok()?;
    *request.version_mut() = match words.next() {
        Some(b"HTTP/2") => Version::HTTP_2,
        Some(b"HTTP/1.0") => Version::HTTP_10,
        _ => Version::HTTP_11,
    };
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        request.headers_mut().try_append(name, value).ok()?;
    }
    Some(request)
}
