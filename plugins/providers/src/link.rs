//! The addresses of this machine and of its link, where metadata services are.

use std::net::IpAddr;

/// Whether a host is this machine.
pub(crate) fn is_local(host: &str) -> bool {
    host == "localhost" || ip(host).is_some_and(|ip| ip.is_loopback())
}

/// Whether a host is on this machine's link. No proxy can reach it, or may see what is asked there.
pub(crate) fn is_link_local(host: &str) -> bool {
    match ip(host) {
        Some(IpAddr::V4(ip)) => ip.is_link_local(),
        // AWS has its instance and container endpoints in `fd00:ec2::/32`.
        Some(IpAddr::V6(ip)) => {
            ip.is_unicast_link_local() || ip.segments()[..2] == [0xfd00, 0x0ec2]
        }
        None => false,
    }
}

/// Whether a host is this machine, or on its link.
pub(crate) fn is_near(host: &str) -> bool {
    is_local(host) || is_link_local(host)
}

/// The address that a host is, if it is not a name.
fn ip(host: &str) -> Option<IpAddr> {
    let ip: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    Some(ip.to_canonical())
}
