//! `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, read as Go's `httpproxy` reads them.

use std::net::IpAddr;

use super::proxy::Proxy;
use crate::{Error, Origin, error::Kind};

/// The proxy the environment names for this origin, if any.
pub(super) fn proxy_for(
    origin: &Origin,
    var: impl Fn(&str) -> Option<String>,
) -> Result<Option<Proxy>, Error> {
    let first = |names: [&str; 2]| {
        names.into_iter().find_map(|name| var(name).filter(|value| !value.is_empty()))
    };
    let named = if origin.is_https() {
        first(["HTTPS_PROXY", "https_proxy"])
    } else {
        first(["HTTP_PROXY", "http_proxy"])
    };
    let Some(named) = named else {
        return Ok(None);
    };
    if !origin.is_https() && var("REQUEST_METHOD").is_some_and(|value| !value.is_empty()) {
        // In a CGI program that variable comes from the client's request.
        return Err(Error::new(
            Kind::BadConfig,
            "`HTTP_PROXY` cannot be trusted where `REQUEST_METHOD` is set",
        ));
    }
    let exceptions = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    if goes_direct(origin.bare_host(), origin.port(), &exceptions) {
        return Ok(None);
    }
    let whole = if named.contains("://") { named } else { format!("http://{named}") };
    Proxy::parse(&whole).map(Some)
}

fn goes_direct(host: &str, port: u16, exceptions: &str) -> bool {
    let ip = host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    if host == "localhost" || ip.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    exceptions
        .split(',')
        .map(|entry| entry.trim().to_ascii_lowercase())
        .filter(|entry| !entry.is_empty())
        .any(|entry| excepts(&entry, host, ip, port))
}

fn excepts(entry: &str, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let Some((network, bits)) = network(entry) {
        return ip.is_some_and(|ip| contains(network, bits, ip));
    }
    let (name, entry_port) = split(entry);
    if entry_port.is_some_and(|wanted| wanted != port.to_string()) {
        return false;
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip == Some(address.to_canonical());
    }
    if ip.is_some() || name.is_empty() {
        return false;
    }
    let name = name.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(name);
    match name.strip_prefix('.') {
        // `.example` matches everything below it, `example` also itself.
        Some(_) => host.ends_with(name),
        None => host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// `host`, `host:port`, `[address]:port`; a bare IPv6 address has colons and no port.
fn split(entry: &str) -> (&str, Option<&str>) {
    if let Some((name, port)) = entry.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        return (name, Some(port).filter(|port| !port.is_empty()));
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => {
            (name, Some(port).filter(|port| !port.is_empty()))
        }
        _ => (entry, None),
    }
}

fn network(entry: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = entry.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u32 = bits.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

fn contains(network: IpAddr, bits: u32, ip: IpAddr) -> bool {
    match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(network) & mask == u32::from(ip) & mask
        }
        (IpAddr::V6(network), IpAddr::V6(ip)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(network) & mask == u128::from(ip) & mask
        }
        _ => false,
    }
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
    fn exceptions_match_as_in_go() {
        let direct = |server: &str, exceptions: &str| {
            chosen(server, &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", exceptions)]).is_none()
        };
        for (server, exceptions, expected) in [
            ("https://api.example", "*", true),
            ("https://api.example", "example", true),
            ("https://example", "example", true),
            ("https://badexample", "example", false),
            ("https://example", ".example", false),
            ("https://api.example", " *.EXAMPLE ", true),
            ("https://api.example:6443", "example:6443", true),
            ("https://api.example", "example:6443", false),
            ("https://10.1.2.3", "10.0.0.0/8", true),
            ("https://11.1.2.3", "10.0.0.0/8,0.0.0.0/33", false),
            ("https://10.1.2.3:6443", "10.1.2.3:443", false),
            ("https://10.1.2.3", "10.1.2.3", true),
            ("https://10.1.2.3", "3", false),
            ("https://[fd00::7]", "fd00::/8", true),
            ("https://[fd00::7]:6443", "[fd00::7]:6443", true),
            ("https://[fd00::7]", "fd00::7", true),
            ("https://api.example", "", false),
        ] {
            assert_eq!(direct(server, exceptions), expected, "{server} with `{exceptions}`");
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
