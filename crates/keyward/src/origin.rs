use std::fmt;

use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use keyward_protocol::{Url, url};

use crate::{Error, error::Kind};

/// The server that credentials are for: scheme, host and port, and the path where its API starts.
///
/// Two origins are equal if scheme, host (ignoring case) and port are.
#[derive(Clone)]
pub struct Origin {
    scheme: Scheme,
    authority: Authority,
    /// The host as in a URL: lower case, without a zone.
    host: String,
    /// The host for the resolver.
    dial: String,
    port: u16,
    base: String,
}

impl Origin {
    /// Parses the `server` of a kubeconfig as client-go does: without a scheme it is plain HTTP, and then
    /// it has no path. What client-go does not accept as a URL is an error.
    pub fn parse(server: &str) -> Result<Self, Error> {
        let bad = |what: &str| {
            let server = url::mask(server);
            Error::new(Kind::BadConfig, format!("server `{}` {what}", server.escape_debug()))
        };
        let url = match Url::parse(server) {
            Ok(url) if !url.scheme().is_empty() && url.has_host() => url,
            first => {
                // A bare host is valid once it has a scheme.
                let url = Url::parse(&format!("http://{server}"))
                    .map_err(|error| bad(&format!("is {}", first.err().unwrap_or(error))))?;
                if !matches!(url.path(), "" | "/") {
                    return Err(bad("is neither a URL nor a host with a port"));
                }
                url
            }
        };
        let (scheme, default_port) = match url.scheme() {
            "https" => (Scheme::HTTPS, 443),
            "http" => (Scheme::HTTP, 80),
            _ => return Err(bad("is neither `http` nor `https`")),
        };
        let dial = url.host().ok_or_else(|| bad("has no host"))?.to_ascii_lowercase();
        // The zone of an address is local to this machine and not sent to servers.
        let host = match dial.split_once('%') {
            Some((address, _)) => format!("[{address}]"),
            None if dial.contains(':') => format!("[{dial}]"),
            None => dial.clone(),
        };
        // A bad port must not become the scheme's default: another server may listen there.
        let port = match (url.port(), url.has_port()) {
            (Some(port), _) => port,
            (None, false) => default_port,
            (None, true) => return Err(bad("has no usable port")),
        };
        let authority = if url.has_port() { format!("{host}:{port}") } else { host.clone() };
        let authority = authority.parse().map_err(|_| bad("has no usable host"))?;
        let path = url.escaped_path();
        let base = path.trim_end_matches('/').to_owned();
        Ok(Self { scheme, authority, host, dial, port, base })
    }

    /// The host as it stands in a URL: an IPv6 address has its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host as a resolver knows it: an IPv6 address has no brackets, but perhaps a zone.
    pub fn bare_host(&self) -> &str {
        &self.dial
    }

    /// The port; the scheme's default if the URL has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the server speaks TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Whether a request for `uri` goes to this server. A URI without a host does: the client sends it
    /// to the configured host.
    pub fn covers(&self, uri: &Uri) -> bool {
        let Some(authority) = uri.authority() else {
            return true;
        };
        let scheme = uri.scheme().unwrap_or(&self.scheme);
        let default_port = if *scheme == Scheme::HTTPS { 443 } else { 80 };
        *scheme == self.scheme
            && authority.host().eq_ignore_ascii_case(&self.host)
            && port(authority, default_port) == Some(self.port)
    }

    /// The full URI of a request. A relative one is placed under the path of the kubeconfig's `server`,
    /// an absolute one is kept.
    pub(crate) fn place(&self, uri: &Uri) -> Result<Uri, Error> {
        match uri.path_and_query() {
            Some(path) if uri.authority().is_some() || self.base.is_empty() => {
                self.with(path.clone())
            }
            path => {
                let path = path.map_or("/", PathAndQuery::as_str);
                self.uri(&format!("{}{path}", self.base))
            }
        }
    }

    /// The URI of a path and query on this server, wherever its API starts.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri, Error> {
        self.with(
            path.parse().map_err(|_| Error::new(Kind::Http, "the request has no usable path"))?,
        )
    }

    fn with(&self, path: PathAndQuery) -> Result<Uri, Error> {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).map_err(|_| Error::new(Kind::Http, "the request has no usable URI"))
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.host == other.host && self.port == other.port
    }
}

impl Eq for Origin {}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Origin({self}{})", self.base)
    }
}

/// The port of an authority, or else the default. `None` if it has a port that is not valid, which must
/// not become the default: another server may listen there.
fn port(authority: &Authority, default: u16) -> Option<u16> {
    let text = authority.as_str();
    let plain = text.rsplit_once('@').map_or(text, |(_, plain)| plain);
    match plain.strip_prefix(authority.host())?.strip_prefix(':') {
        None | Some("") => Some(default),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn covers(origin: &str, uri: &str) -> bool {
        Origin::parse(origin).unwrap().covers(&uri.parse().unwrap())
    }

    #[test]
    fn an_origin_covers_its_own_scheme_host_and_port_only() {
        assert!(covers("https://api.example", "https://API.example:443/x"));
        assert!(covers("https://api.example:6443/base", "/x"));
        assert!(!covers("https://api.example", "https://api.example:8443/x"));
        assert!(!covers("https://api.example", "http://api.example:443/x"));
        assert!(!covers("https://api.example", "https://api.example.evil/x"));
        assert!(!covers("https://api.example", "https://evil@other.example/x"));
    }

    #[test]
    fn an_invalid_port_does_not_become_the_default() {
        for (server, port) in [
            ("https://1:1", Some(1)),
            ("https://[::1]", Some(443)),
            ("https://[::1]:", Some(443)),
            ("https://me@127.0.0.1:6443", Some(6443)),
            ("https://127.0.0.1:65536", None),
            ("https://127.0.0.1:+443", None),
            ("https://127.0.0.1:abc", None),
        ] {
            let origin = Origin::parse(server);
            assert_eq!(origin.as_ref().ok().map(Origin::port), port, "{server}: {origin:?}");
        }
        assert!(!covers("https://api.example", "https://api.example:65536/x"));
    }

    #[test]
    fn relative_requests_are_placed_under_the_servers_path() {
        let origin = Origin::parse("https://rancher.example/k8s/clusters/c-1/").unwrap();
        let placed = origin.place(&"/version?x=1".parse().unwrap()).unwrap();
        assert_eq!(placed, "https://rancher.example/k8s/clusters/c-1/version?x=1");
    }

    #[test]
    fn a_server_without_a_scheme_is_plain_http() {
        let origin = Origin::parse("localhost:8080").unwrap();
        assert!(!origin.is_https());
        assert_eq!((origin.host(), origin.port()), ("localhost", 8080));
    }

    #[test]
    fn an_address_in_brackets_loses_them_for_the_resolver() {
        let origin = Origin::parse("https://[::1]:6443").unwrap();
        assert_eq!((origin.host(), origin.bare_host()), ("[::1]", "::1"));
    }

    #[test]
    fn the_zone_of_an_address_is_for_the_resolver_alone() {
        let origin = Origin::parse("https://[fe80::1%25lo]:6443/p").unwrap();
        assert_eq!((origin.host(), origin.bare_host()), ("[fe80::1]", "fe80::1%lo"));
        let placed = origin.place(&"/version".parse().unwrap()).unwrap();
        assert_eq!(placed, "https://[fe80::1]:6443/p/version");
    }

    #[test]
    fn a_url_that_client_go_rejects_is_rejected() {
        for server in [
            "https://127.0.0.1:6443/%zz",
            "https://[::1]:6443%zz",
            "https://%zz:6443",
            "https://a b:6443",
            "https://[::1%25]:6443",
            "https:///path",
            "host/path",
            "unix:///x",
            "",
        ] {
            let error = Origin::parse(server).unwrap_err();
            assert_eq!(error.kind(), Kind::BadConfig, "{server}");
            assert!(error.to_string().contains(server), "{error}");
        }
    }

    #[test]
    fn a_path_is_sent_as_client_go_escapes_it() {
        for (server, placed) in [("https://h/a b/", "/a%20b/x"), ("https://h/a%2fb", "/a%2fb/x")] {
            let origin = Origin::parse(server).unwrap();
            assert_eq!(origin.place(&"/x".parse().unwrap()).unwrap().path(), placed);
        }
    }

    #[test]
    fn a_user_name_in_the_url_is_not_sent() {
        let origin = Origin::parse("https://me:secret@api.example").unwrap();
        assert_eq!(origin.to_string(), "https://api.example");
    }
}
