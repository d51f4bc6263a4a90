use std::fmt;

use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::{Error, error::Kind};

/// The one server credentials are for: scheme, host and port, and the path its API starts at.
///
/// Two origins are equal when scheme, host (in any case) and port are.
#[derive(Clone)]
pub struct Origin {
    scheme: Scheme,
    authority: Authority,
    host: String,
    port: u16,
    base: String,
}

impl Origin {
    /// Reads the `server` of a kubeconfig as client-go does: without a scheme it is plain HTTP,
    /// with none but a host it is its root.
    pub fn parse(server: &str) -> Result<Self, Error> {
        let bad = |what: &str| Error::new(Kind::BadConfig, format!("server `{server}` {what}"));
        let text =
            if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let uri: Uri = text.parse().map_err(|_| bad("is not a URL"))?;
        let scheme = uri.scheme().cloned().ok_or_else(|| bad("has no scheme"))?;
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(bad("is neither `http` nor `https`")),
        };
        let authority = uri.authority().ok_or_else(|| bad("has no host"))?;
        // A user name in the URL is not part of who the server is, and must not be sent about.
        let plain =
            authority.as_str().rsplit_once('@').map_or(authority.as_str(), |(_, host)| host);
        let authority: Authority = plain.parse().map_err(|_| bad("has no usable host"))?;
        let host = authority.host().to_ascii_lowercase();
        if host.is_empty() {
            return Err(bad("has no host"));
        }
        // A port that is none must not become the scheme's own: somebody else may listen there.
        let port = port(&authority, default_port).ok_or_else(|| bad("has no usable port"))?;
        Ok(Self {
            port,
            base: uri.path().trim_end_matches('/').to_owned(),
            scheme,
            authority,
            host,
        })
    }

    /// The host as it stands in a URL: an IPv6 address has its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host as a resolver or a certificate knows it: an IPv6 address has no brackets.
    pub fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, the scheme's own where the URL has none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the server speaks TLS.
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }

    /// Whether a request for `uri` goes to this server. A URI without a host does: whoever sends
    /// it on decides the host, and that is the one configured.
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

    /// The whole URI of a request. A relative one is put under the path of the kubeconfig's
    /// `server`, an absolute one is taken as it is.
    pub(crate) fn place(&self, uri: &Uri) -> Result<Uri, Error> {
        let path = match uri.path_and_query() {
            Some(path) if uri.authority().is_some() || self.base.is_empty() => path.clone(),
            path => {
                let path = path.map_or("/", PathAndQuery::as_str);
                format!("{}{path}", self.base)
                    .parse()
                    .map_err(|_| Error::new(Kind::Http, "the request has no usable path"))?
            }
        };
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

/// The port that an authority names, or else the scheme's own. `None` if it names something that is no
/// port: then it must not become the scheme's, where somebody else may listen.
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
    fn a_port_that_is_none_does_not_become_the_schemes_own() {
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
    fn a_user_name_in_the_url_is_not_sent_about() {
        let origin = Origin::parse("https://me:secret@api.example").unwrap();
        assert_eq!(origin.to_string(), "https://api.example");
    }
}
