//! Who is let through: a request that could act as somebody else, or that a browser was talked into
//! sending, is refused. Nothing of a request is dropped in silence: without its `Impersonate-User` it
//! would run as the whole identity.

use http::{
    HeaderMap, HeaderName, Method, Request, Uri, Version,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, ORIGIN, PROXY_AUTHORIZATION,
        SEC_WEBSOCKET_PROTOCOL, TRANSFER_ENCODING, UPGRADE,
    },
    uri::Scheme,
};
use keyward::bearer::has_own_credential;

use super::refusal::{
    self, BROWSER, CODING, IMPERSONATION, INCOMPLETE_IMPERSONATION, LENGTH, LOST_ON_THE_WAY,
    METHOD, NAME, NO_HOST, OTHER_HOST, OTHER_UPGRADE, OWN_AUTHORIZATION, PATH, Refusal,
    UNASKED_UPGRADE,
};

const IMPERSONATE: &str = "impersonate-";
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What `Connection` may name: headers and words that are about a connection, whatever they say.
const HOPS: [&str; 6] =
    ["close", "keep-alive", "upgrade", "te", "proxy-connection", "http2-settings"];

/// What clients may do that is refused by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed {
    /// Requests may bring their own `Authorization`, which is passed on as it is.
    pub authorization: bool,
    /// Requests may act as another user (`--as`).
    pub impersonation: bool,
}

/// The rules of a listener.
#[derive(Debug)]
pub(crate) struct Gate {
    /// What clients may call us, in lower case.
    pub(crate) names: Vec<String>,
    /// What the listener speaks, for targets that name it.
    pub(crate) scheme: Scheme,
    pub(crate) allowed: Allowed,
}

impl Gate {
    /// Checks a request before anything is done for it, and gives what its `Connection` names.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<Connection, Refusal> {
        if request.method() == Method::CONNECT {
            return Err(METHOD);
        }
        if request.headers().contains_key(UPGRADE) && request.version() != Version::HTTP_11 {
            return Err(OTHER_UPGRADE);
        }
        self.check_host(request.uri(), request.headers())?;
        let connection = Connection::parse(request.headers());
        for name in request.headers().keys() {
            self.check_header(name, request.headers(), &connection)?;
        }
        Ok(connection)
    }

    /// Every place that names a host has to name us: whoever was led here by a name of his own
    /// (DNS rebinding) does not.
    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let header = match (hosts.next(), hosts.next()) {
            (Some(host), None) => Some(host.to_str().map_err(|_| NO_HOST)?),
            (None, None) => None,
            _ => return Err(NO_HOST),
        };
        let authority = uri.authority().map(http::uri::Authority::as_str);
        if header.is_none() && authority.is_none() {
            return Err(NO_HOST);
        }
        let known = |host: &str| self.names.iter().any(|name| name.eq_ignore_ascii_case(host));
        let all = [header, authority].into_iter().flatten().all(known)
            && uri.scheme().is_none_or(|scheme| *scheme == self.scheme);
        if all { Ok(()) } else { Err(OTHER_HOST) }
    }

    /// Whether the one `Origin` of a request is a name of this listener. Clients that are no browsers
    /// send the address they call, and write `http` for it where the connection has TLS.
    fn is_own_origin(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(ORIGIN).iter();
        let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
        let Some((scheme, host)) = origin.to_str().ok().and_then(|text| text.split_once("://"))
        else {
            return false;
        };
        ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme))
            && self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }

    fn check_header(
        &self,
        name: &HeaderName,
        headers: &HeaderMap,
        connection: &Connection,
    ) -> Result<(), Refusal> {
        // The one byte that h2 takes in a name and that no name may have (RFC 9110, 5.6.2).
        if name.as_str().contains('"') {
            return Err(NAME);
        }
        if *name == FETCH_SITE || (*name == ORIGIN && !self.is_own_origin(headers)) {
            return Err(BROWSER);
        }
        if !self.allowed.authorization && brings_authorization(name, headers) {
            return Err(OWN_AUTHORIZATION);
        }
        if *name == PROXY_AUTHORIZATION {
            return Err(refusal::PROXY_AUTHORIZATION);
        }
        if !self.allowed.impersonation && names_somebody(name.as_str()) {
            return Err(IMPERSONATION);
        }
        if name.as_str().starts_with(IMPERSONATE) && !names_one_user(headers) {
            return Err(INCOMPLETE_IMPERSONATION);
        }
        if *name == CONNECTION && !connection.only_hops {
            return Err(LOST_ON_THE_WAY);
        }
        if *name == TRANSFER_ENCODING && !is_chunked(headers) {
            return Err(CODING);
        }
        if *name == CONTENT_LENGTH && length(headers).is_none() {
            return Err(LENGTH);
        }
        if *name == UPGRADE && wanted_upgrade(headers).is_none() {
            return Err(OTHER_UPGRADE);
        }
        if *name == UPGRADE && !connection.names.contains(&UPGRADE) {
            return Err(UNASKED_UPGRADE);
        }
        Ok(())
    }
}

/// The target as it goes to the server. HTTP/2 has targets of which nothing, or no path, would be left
/// in a line of HTTP/1.1.
pub(crate) fn target(method: &Method, uri: &Uri) -> Result<Uri, Refusal> {
    let path = uri.path_and_query().ok_or(PATH)?;
    let text = path.as_str();
    let target = Uri::from(path.clone());
    let whole = text == "*" && *method == Method::OPTIONS;
    // What is empty calls itself `/`, and is written as nothing.
    let good = text.starts_with('/') && !target.path().is_empty();
    if good || whole { Ok(target) } else { Err(PATH) }
}

/// The protocol a request wants to change to, if it is one that the server's streams are made of.
/// Any other could carry requests that were never looked at.
pub(crate) fn wanted_upgrade(headers: &HeaderMap) -> Option<&'static str> {
    let mut values = headers.get_all(UPGRADE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    ["websocket", "SPDY/3.1"]
        .into_iter()
        .find(|known| value.to_str().is_ok_and(|wanted| wanted.trim().eq_ignore_ascii_case(known)))
}

/// Any other coding, or the same twice, could be read in two ways.
pub(crate) fn is_chunked(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let (first, more) = (values.next(), values.next());
    more.is_none() && first.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

/// The length that a request says its body has. Over HTTP/2 nobody else looks at how it is written, and
/// a server that reads it otherwise would find the next request elsewhere.
pub(crate) fn length(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let text = value.to_str().ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn brings_authorization(name: &HeaderName, headers: &HeaderMap) -> bool {
    *name == AUTHORIZATION
        || *name == PROXY_AUTHORIZATION
        || (*name == SEC_WEBSOCKET_PROTOCOL && has_own_credential(headers))
}

/// What the `Connection` headers of a message say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The headers that it names.
    pub(crate) names: Vec<HeaderName>,
    /// Whether all of them are about a connection. What else it names would not be passed on, and that
    /// may be what says who asks.
    only_hops: bool,
}

impl Connection {
    pub(crate) fn parse(headers: &HeaderMap) -> Self {
        let (mut names, mut only_hops) = (Vec::new(), true);
        for value in headers.get_all(CONNECTION) {
            let Ok(list) = value.to_str() else {
                only_hops = false;
                continue;
            };
            for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                only_hops &= HOPS.iter().any(|hop| hop.eq_ignore_ascii_case(name));
                names.extend(name.parse::<HeaderName>());
            }
        }
        Self { names, only_hops }
    }
}

/// Whether a request that acts as somebody says who that is. Without it, or with nothing in its place, the
/// user whom the kubeconfig names would stand beside the request's groups, or not stand there at all.
fn names_one_user(headers: &HeaderMap) -> bool {
    let mut users = headers.get_all(IMPERSONATE_USER).iter();
    let (user, more) = (users.next(), users.next());
    more.is_none() && user.is_some_and(|user| !user.as_bytes().trim_ascii().is_empty())
}

/// `Impersonate-…`, and what an authenticating proxy in front of a server says.
fn names_somebody(name: &str) -> bool {
    name.starts_with(IMPERSONATE) || name.starts_with("x-remote-")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::HeaderValue;

    use super::*;

    fn gate(allowed: Allowed) -> Gate {
        let names = vec!["127.0.0.1:8443".into(), "localhost:8443".into()];
        Gate { names, scheme: Scheme::HTTPS, allowed }
    }

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/api");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn judge(headers: &[(&str, &str)]) -> Option<&'static str> {
        let all = [&[("host", "127.0.0.1:8443")], headers].concat();
        gate(Allowed::default()).check(&request(&all)).err().and_then(|refusal| refusal.reason)
    }

    #[test]
    fn an_ordinary_request_is_let_through() {
        assert_eq!(judge(&[("accept", "application/json"), ("user-agent", "kubectl")]), None);
        assert_eq!(judge(&[("upgrade", "websocket"), ("connection", "upgrade")]), None);
        assert_eq!(judge(&[("upgrade", "SPDY/3.1"), ("connection", "upgrade")]), None);
    }

    #[test]
    fn what_could_act_as_somebody_else_is_refused() {
        for (name, value, reason) in [
            ("authorization", "Bearer x", "authorization"),
            ("proxy-authorization", "Basic x", "authorization"),
            (
                "sec-websocket-protocol",
                "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.eA",
                "authorization",
            ),
            ("impersonate-user", "ann", "impersonation"),
            ("Impersonate-Group", "dev", "impersonation"),
            ("impersonate-extra-x", "y", "impersonation"),
            ("x-remote-user", "ann", "impersonation"),
            ("origin", "https://evil.example", "origin"),
            ("origin", "null", "origin"),
            ("origin", "", "origin"),
            ("origin", "https://127.0.0.1:9999", "origin"),
            ("origin", "https://127.0.0.1", "origin"),
            ("origin", "https://127.0.0.1:8443.evil.example", "origin"),
            ("origin", "https://127.0.0.1:8443/", "origin"),
            ("origin", "chrome-extension://127.0.0.1:8443", "origin"),
            ("sec-fetch-site", "cross-site", "origin"),
            ("sec-fetch-site", "same-origin", "origin"),
            ("sec-fetch-site", "none", "origin"),
            ("upgrade", "h2c", "upgrade"),
            ("upgrade", "websocket, h2c", "upgrade"),
            ("upgrade", "websocket", "upgrade"),
            ("host", "localhost:8443", "host"),
            ("transfer-encoding", "gzip, chunked", "coding"),
            ("content-length", "", "length"),
            ("content-length", "+5", "length"),
            ("content-length", "5, 5", "length"),
            ("connection", "close, Impersonate-User", "connection"),
            ("connection", "authorization", "connection"),
            ("connection", "close, a b", "connection"),
            ("connection", "Sec-WebSocket-Protocol", "connection"),
        ] {
            assert_eq!(judge(&[(name, value)]), Some(reason), "{name}: {value}");
        }
    }

    #[test]
    fn a_client_that_names_our_own_address_as_its_origin_is_let_through() {
        for value in [
            // As the official Python client's websocket library writes it.
            "http://127.0.0.1:8443",
            "https://127.0.0.1:8443",
            "https://LOCALHOST:8443",
        ] {
            assert_eq!(judge(&[("origin", value)]), None, "{value}");
            // Another header of the same name, and a browser that tells of itself.
            for second in [("origin", value), ("origin", "x"), ("sec-fetch-site", "same-origin")] {
                assert_eq!(judge(&[("origin", value), second]), Some("origin"), "{second:?}");
            }
        }
    }

    #[test]
    fn what_goes_to_the_server_begins_with_a_slash() {
        for (method, path, good) in [
            ("GET", "/", true),
            ("GET", "/api?x=1", true),
            ("GET", "//evil.example/x", true),
            ("OPTIONS", "*", true),
            ("DELETE", "*", false),
            ("GET", "#a", false),
            ("GET", "?x=1", false),
            ("GET", "evil", false),
        ] {
            let Ok(path) = path.parse::<http::uri::PathAndQuery>() else {
                assert!(!good, "{path}");
                continue;
            };
            for named in [false, true] {
                let mut parts = http::uri::Parts::default();
                parts.path_and_query = Some(path.clone());
                if named {
                    parts.scheme = Some(Scheme::HTTPS);
                    parts.authority = Some("localhost:8443".parse().unwrap());
                }
                let Ok(uri) = Uri::from_parts(parts) else { continue };
                let seen = target(&method.parse().unwrap(), &uri);
                assert_eq!(seen.is_ok(), good, "{method} {path} {seen:?}");
                let begins = |uri: Uri| uri.to_string().starts_with(['/', '*']);
                assert!(!good || seen.is_ok_and(begins), "{method} {path}");
            }
        }
    }

    #[test]
    fn connection_names_what_is_about_the_connection_and_nothing_else() {
        let names_hops = |headers: &HeaderMap| Connection::parse(headers).only_hops;
        let mut headers = HeaderMap::new();
        assert!(names_hops(&headers));
        headers.append(CONNECTION, HeaderValue::from_static("keep-alive, , Upgrade,TE\t"));
        assert!(names_hops(&headers));
        for other in ["Sec-WebSocket-Protocol", "X-Plain", "close, Content-Length", "close te"] {
            let mut headers = headers.clone();
            headers.append(CONNECTION, HeaderValue::from_static(other));
            assert!(!names_hops(&headers), "{other}");
        }
        headers.append(CONNECTION, HeaderValue::from_bytes(b"close\xff").unwrap());
        assert!(!names_hops(&headers));
    }

    #[test]
    fn what_was_allowed_is_let_through() {
        let gate = gate(Allowed { authorization: true, impersonation: true });
        for name in ["authorization", "impersonate-user"] {
            let request = request(&[("host", "LOCALHOST:8443"), (name, "x")]);
            assert!(gate.check(&request).is_ok(), "{name}");
        }
    }

    #[test]
    fn whoever_acts_as_somebody_says_as_whom() {
        let gate = gate(Allowed { authorization: false, impersonation: true });
        let judge = |headers: &[(&str, &str)]| {
            let all = [&[("host", "localhost:8443")], headers].concat();
            gate.check(&request(&all)).is_ok()
        };
        assert!(judge(&[("impersonate-user", "bob"), ("impersonate-group", "dev")]));
        assert!(!judge(&[("impersonate-group", "dev")]));
        assert!(!judge(&[("impersonate-extra-scopes", "x")]));
        assert!(!judge(&[("impersonate-user", "")]));
        assert!(!judge(&[("impersonate-user", " "), ("impersonate-group", "dev")]));
        assert!(!judge(&[("impersonate-user", "bob"), ("impersonate-user", "ann")]));
    }

    #[test]
    fn every_place_that_names_a_host_has_to_name_us() {
        let gate = gate(Allowed::default());
        for (uri, host, good) in [
            ("/", Some("localhost:8443"), true),
            ("https://localhost:8443/", None, true),
            ("https://localhost:8443/", Some("127.0.0.1:8443"), true),
            ("/", Some("localhost"), false),
            ("/", Some("evil.example:8443"), false),
            ("https://evil.example/", Some("localhost:8443"), false),
            ("https://x@localhost:8443/", None, false),
            ("http://localhost:8443/", Some("localhost:8443"), false),
            ("htts://localhost:8443/", Some("localhost:8443"), false),
            ("/", None, false),
        ] {
            let mut request = Request::get(uri);
            if let Some(host) = host {
                request = request.header("host", host);
            }
            assert_eq!(gate.check(&request.body(()).unwrap()).is_ok(), good, "{uri} {host:?}");
        }
    }
}
