//! Decides which requests are forwarded. Refuses those that could act as somebody else, or that a
//! web page made a browser send. Nothing is dropped silently: without its `Impersonate-User` a
//! request would run with the full identity.

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
pub(crate) const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
pub(crate) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What `Connection` may name: headers and options that concern a single connection.
const HOPS: [&str; 6] =
    ["close", "keep-alive", "upgrade", "te", "proxy-connection", "http2-settings"];

/// Exceptions to what is refused by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Allowed {
    /// Forward requests with their own `Authorization`, unchanged.
    pub authorization: bool,
    /// Forward requests that impersonate another user (`--as`).
    pub impersonation: bool,
}

/// The rules of a listener.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The names of this proxy, in lower case.
    pub(crate) names: Vec<String>,
    /// The listener's scheme, for targets that contain it.
    pub(crate) scheme: Scheme,
    pub(crate) allowed: Allowed,
}

impl Gate {
    /// The rules without exceptions, for clients that only act within a grant.
    pub(crate) fn strict(&self) -> Self {
        let (names, scheme) = (self.names.clone(), self.scheme.clone());
        Self { names, scheme, allowed: Allowed::default() }
    }

    /// Checks a request before anything is done for it, and returns its `Connection` header.
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

    /// Every part that names a host must name this proxy: a client that was led here by another
    /// name (DNS rebinding) does not.
    pub(crate) fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
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

    /// Whether a request has one `Origin`, which is a name of this listener. Clients other than
    /// browsers send the address they call, with `http` although the connection has TLS.
    pub(crate) fn is_own_origin(&self, headers: &HeaderMap) -> bool {
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
        // The only byte that h2 accepts in a name although it is not allowed there (RFC 9110,
        // 5.6.2).
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

/// The target to send to the server. Some HTTP/2 targets would leave nothing, or no path, in a
/// request line of HTTP/1.1.
pub(crate) fn target(method: &Method, uri: &Uri) -> Result<Uri, Refusal> {
    let path = uri.path_and_query().ok_or(PATH)?;
    let text = path.as_str();
    let target = Uri::from(path.clone());
    let whole = text == "*" && *method == Method::OPTIONS;
    // An empty path reads as `/`, but is written as nothing.
    let good = text.starts_with('/') && !target.path().is_empty();
    if good || whole { Ok(target) } else { Err(PATH) }
}

/// The protocol that a request wants to upgrade to, if the server uses it for streams. Any other
/// could carry unchecked requests.
pub(crate) fn wanted_upgrade(headers: &HeaderMap) -> Option<&'static str> {
    let mut values = headers.get_all(UPGRADE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    ["websocket", "SPDY/3.1"]
        .into_iter()
        .find(|known| value.to_str().is_ok_and(|wanted| wanted.trim().eq_ignore_ascii_case(known)))
}

/// Whether the only transfer coding is `chunked`. Any other, or a repeated one, could be read in
/// two ways.
pub(crate) fn is_chunked(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let (first, more) = (values.next(), values.next());
    more.is_none() && first.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

/// The length that a request declares for its body. Over HTTP/2 nothing else checks how it is
/// written, and a server that reads it differently would find the next request elsewhere.
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

/// The parsed `Connection` headers of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The headers that it names.
    pub(crate) names: Vec<HeaderName>,
    /// Whether all of them concern the connection. Others would not be forwarded, and one could be
    /// what identifies the user.
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

/// Whether a request that impersonates names exactly one user. Otherwise the kubeconfig's user
/// would be combined with the request's groups, or be missing.
fn names_one_user(headers: &HeaderMap) -> bool {
    let mut users = headers.get_all(IMPERSONATE_USER).iter();
    let (user, more) = (users.next(), users.next());
    more.is_none() && user.is_some_and(|user| !user.as_bytes().trim_ascii().is_empty())
}

/// `Impersonate-…`, and the headers of an authenticating proxy in front of a server.
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
            // As the websocket library of the official Python client writes it.
            "http://127.0.0.1:8443",
            "https://127.0.0.1:8443",
            "https://LOCALHOST:8443",
        ] {
            assert_eq!(judge(&[("origin", value)]), None, "{value}");
            // A second header of the same name, and a browser that identifies itself.
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
