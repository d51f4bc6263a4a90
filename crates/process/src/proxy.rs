//! `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, read as Go's `httpproxy` reads them.

use std::{error::Error, fmt, net::IpAddr};

/// `HTTP_PROXY` is set in a CGI program, where it may come from the client's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untrusted;

/// The address of the proxy that the environment names for a server, if any. It always has a scheme.
///
/// `host` is a lower-case name or an address without brackets. Loopback is always reached directly.
///
/// ```
/// use keyward_process::proxy;
///
/// let var = |name: &str| (name == "HTTPS_PROXY").then(|| "proxy.example:3128".to_owned());
/// let found = proxy::from_environment(true, "api.example", 443, var).unwrap();
/// assert_eq!(found.as_deref(), Some("http://proxy.example:3128"));
/// ```
pub fn from_environment(
    https: bool,
    host: &str,
    port: u16,
    var: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, Untrusted> {
    let first = |names: [&str; 2]| {
        names.into_iter().find_map(|name| var(name).filter(|value| !value.is_empty()))
    };
    let named = if https {
        first(["HTTPS_PROXY", "https_proxy"])
    } else {
        first(["HTTP_PROXY", "http_proxy"])
    };
    let Some(named) = named else {
        return Ok(None);
    };
    if !https && var("REQUEST_METHOD").is_some_and(|value| !value.is_empty()) {
        return Err(Untrusted);
    }
    let exceptions = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    if goes_direct(host, port, &exceptions) {
        return Ok(None);
    }
    Ok(Some(if named.contains("://") { named } else { format!("http://{named}") }))
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`HTTP_PROXY` cannot be trusted where `REQUEST_METHOD` is set")
    }
}

impl Error for Untrusted {}

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
    use super::*;

    #[test]
    fn exceptions_match_as_in_go() {
        for (host, port, exceptions, expected) in [
            ("api.example", 443, "*", true),
            ("api.example", 443, "example", true),
            ("example", 443, "example", true),
            ("badexample", 443, "example", false),
            ("example", 443, ".example", false),
            ("api.example", 443, " *.EXAMPLE ", true),
            ("api.example", 6443, "example:6443", true),
            ("api.example", 443, "example:6443", false),
            ("10.1.2.3", 443, "10.0.0.0/8", true),
            ("11.1.2.3", 443, "10.0.0.0/8,0.0.0.0/33", false),
            ("10.1.2.3", 6443, "10.1.2.3:443", false),
            ("10.1.2.3", 443, "10.1.2.3", true),
            ("10.1.2.3", 443, "3", false),
            ("fd00::7", 443, "fd00::/8", true),
            ("fd00::7", 6443, "[fd00::7]:6443", true),
            ("fd00::7", 443, "fd00::7", true),
            ("api.example", 443, "", false),
        ] {
            assert_eq!(goes_direct(host, port, exceptions), expected, "{host} with `{exceptions}`");
        }
    }
}
