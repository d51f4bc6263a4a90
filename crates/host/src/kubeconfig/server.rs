//! What a server's and a proxy's address mean to the reference.

use keyward_protocol::Url;

/// The address as requests and plugins see it: query and fragment go where there is a path (KC-33).
pub(super) fn normalise(server: &str) -> String {
    match Url::parse_request(server) {
        Ok(mut url) if !url.is_opaque() && url.path().len() > 1 => {
            url.clear_query();
            url.text()
        }
        _ => server.to_owned(),
    }
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// Over TLS: credentials may be sent.
    Https,
    /// With a scheme that is not `https`.
    Plain,
    /// Without a scheme, which the reference takes for plain HTTP before it looks at certificate
    /// authorities (KC-35).
    Unsaid,
    /// Not at all: this is no address.
    Invalid,
}

/// Judges an address as the reference does before it lets credentials near it (KC-34).
pub(super) fn transport(server: &str) -> Transport {
    match Url::parse(server) {
        Ok(url) if !url.scheme().is_empty() && url.has_host() => match url.scheme() {
            "https" => Transport::Https,
            _ => Transport::Plain,
        },
        _ => match Url::parse(&format!("http://{server}")) {
            Ok(url) if matches!(url.path(), "" | "/") => Transport::Unsaid,
            _ => Transport::Invalid,
        },
    }
}

/// The proxy's address in the form plugins are told (IN-05); `Err` says what is wrong with it
/// (KC-32).
pub(super) fn proxy(address: &str) -> Result<String, String> {
    let url = Url::parse(address).map_err(|error| format!("is {error}"))?;
    match url.scheme() {
        "http" | "https" | "socks5" => Ok(url.text()),
        "" => Err("has no scheme: it must be http, https or socks5".to_owned()),
        _ => Err("has another scheme than http, https or socks5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_and_fragment_go_only_where_there_is_a_path() {
        for (server, expected) in [
            ("https://h:1/p?x=1#f", "https://h:1/p"),
            ("https://h:1?x=1", "https://h:1?x=1"),
            ("https://h:1/", "https://h:1/"),
            ("https://h/p#f", "https://h/p%23f"),
            ("h:6443", "h:6443"),
        ] {
            assert_eq!(normalise(server), expected);
        }
    }

    #[test]
    fn only_https_counts_as_safe() {
        for (server, expected) in [
            ("https://h", Transport::Https),
            ("HTTPS://h", Transport::Https),
            ("http://h", Transport::Plain),
            ("unix:///x", Transport::Invalid),
            ("h:6443", Transport::Unsaid),
            ("h", Transport::Unsaid),
            ("https://h:1:2", Transport::Invalid),
            (" https://h:1", Transport::Invalid),
            ("https:///p", Transport::Invalid),
        ] {
            assert_eq!(transport(server), expected, "{server}");
        }
    }

    #[test]
    fn a_proxy_needs_a_scheme_we_speak_in_any_letter_case() {
        assert_eq!(proxy("HTTP://p:1"), Ok("http://p:1".to_owned()));
        for address in ["p:3128", "p", "ftp://p", "http://p:x"] {
            assert!(proxy(address).is_err(), "{address}");
        }
    }
}
