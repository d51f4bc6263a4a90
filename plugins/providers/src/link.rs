//! The addresses of this machine's link, where metadata services are.

use std::net::IpAddr;

/// Whether an address is on this machine's link. No proxy can reach it, or may see what is asked there.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_link_local(),
        // AWS has its instance and container endpoints in `fd00:ec2::/32`.
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.segments()[..2] == [0xfd00, 0x0ec2],
    }
}
