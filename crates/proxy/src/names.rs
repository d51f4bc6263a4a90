//! The names and addresses under which clients reach a listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use keyward_protocol::text::inline;
use rcgen::SanType;
use rustls::pki_types::ServerName;

use crate::Error;

/// The names of one listener.
pub(crate) struct Names {
    first: usize,
    /// As written in a `Host` header.
    pub(crate) hosts: Vec<String>,
    bare: Vec<String>,
}

impl Names {
    /// The address itself, `localhost`, and the names in `remote`.
    pub(crate) fn new(address: SocketAddr, remote: Option<&[String]>) -> Self {
        let port = address.port();
        let host = |ip: IpAddr| SocketAddr::new(ip, port).to_string();
        let own = match address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let mut hosts = vec![host(own), format!("localhost:{port}")];
        let mut bare = vec![own.to_string(), "localhost".to_owned()];
        for name in remote.into_iter().flatten().filter(|name| !name.is_empty()) {
            hosts.push(match name.parse::<IpAddr>() {
                Ok(ip) => host(ip),
                Err(_) => format!("{name}:{port}"),
            });
            bare.push(name.clone());
        }
        Self { first: if bare.len() > 2 { 2 } else { 0 }, hosts, bare }
    }

    /// The name that clients are given: the first of `remote`, or else the address.
    pub(crate) fn first(&self) -> &str {
        &self.hosts[self.first]
    }

    pub(crate) fn certificate(&self) -> Vec<SanType> {
        self.bare
            .iter()
            .filter_map(|name| match name.parse::<IpAddr>() {
                Ok(ip) => Some(SanType::IpAddress(ip)),
                Err(_) => name.as_str().try_into().ok().map(SanType::DnsName),
            })
            .collect()
    }
}

/// Refuses addresses that other machines can reach, unless `remote` has names for them.
pub(crate) fn check(
    addresses: impl IntoIterator<Item = SocketAddr>,
    remote: Option<&[String]>,
) -> Result<(), Error> {
    for name in remote.into_iter().flatten().filter(|name| !name.is_empty()) {
        if ServerName::try_from(name.as_str()).is_err() {
            return Err(Error::usage(format!("`{}` is not the name of a machine", inline(name)))
                .hint("`--danger-listen-remote=NAME,…` takes names and addresses, without ports"));
        }
    }
    for address in addresses {
        if !address.ip().is_loopback() && remote.is_none() {
            return Err(Error::usage(format!("`{address}` can be reached from other machines"))
                .hint("`--danger-listen-remote=NAME` allows it"));
        }
    }
    Ok(())
}
