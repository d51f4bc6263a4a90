//! The proxy of the environment, for an [`Origin`].

use keyward_process::proxy::from_environment;

use super::proxy::Proxy;
use crate::{Error, Origin, error::Kind};

/// The proxy the environment names for this origin, if any.
pub(super) fn proxy_for(
    origin: &Origin,
    var: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, Error> {
    let named = from_environment(origin.is_https(), origin.bare_host(), origin.port(), var);
    let named = named.map_err(|error| Error::new(Kind::BadConfig, error.to_string()))?;
    named.map(|named| Proxy::parse(&named)).transpose()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn chosen(server: &str, vars: &[(&str, &str)]) -> Option<String> {
        let var = |name: &str| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        proxy_for(&Origin::parse(server).unwrap(), var).unwrap().map(|proxy| proxy.to_string())
    }

    #[test]
    fn the_scheme_of_the_server_picks_the_variable() {
        let vars = [("HTTP_PROXY", "plain.example:1"), ("https_proxy", "socks5://tls.example")];
        assert_eq!(
            chosen("https://api.example", &vars).as_deref(),
            Some("socks5://tls.example:1080")
        );
        assert_eq!(chosen("http://api.example", &vars).as_deref(), Some("http://plain.example:1"));
    }

    #[test]
    fn loopback_is_always_reached_directly() {
        let vars = [("HTTPS_PROXY", "http://p")];
        for server in ["https://localhost", "https://127.8.8.8", "https://[::1]:6443"] {
            assert_eq!(chosen(server, &vars), None, "{server}");
        }
    }

    #[test]
    fn a_request_cannot_smuggle_a_proxy_into_a_cgi_program() {
        let var = |name: &str| match name {
            "HTTP_PROXY" => Some("evil.example".to_owned()),
            "REQUEST_METHOD" => Some("GET".to_owned()),
            _ => None,
        };
        assert!(proxy_for(&Origin::parse("http://api.example").unwrap(), var).is_err());
        assert!(proxy_for(&Origin::parse("https://api.example").unwrap(), var).unwrap().is_none());
    }
}
