//! TCP connections on this machine: who is at the other end, who listens, and how fast they may send.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::AsFd,
    path::PathBuf,
};

/// The state of a connection, and of a listener, in the system's table.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// One line of the system's table.
struct Line<'a> {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    state: &'a str,
    user: u32,
    inode: u64,
}

/// Lets a TCP socket send without pacing. For a listener, this applies to the connections that it accepts.
///
/// Some systems use BBR for all connections. BBR spreads packets over time, to keep the queues of routers
/// short. Over loopback there is no router, and pacing only delays the reader.
pub fn send_unpaced(socket: impl AsFd) {
    // Every Linux has Reno, for every user. An emulated one may not, and nothing depends on it.
    let _ = rustix::net::sockopt::set_tcp_congestion(socket, "reno");
}

/// The user whose process is at the other end of a connection over loopback: `own` is our address of
/// it, and `peer` the other one. `None` if there is no such connection, or no longer.
pub fn peer_user(own: SocketAddrV4, peer: SocketAddrV4) -> io::Result<Option<u32>> {
    let there = |line: &Line<'_>| {
        // A socket that nobody holds any more has no inode, and root for its user.
        (line.local, line.remote, line.state) == (peer, own, ESTABLISHED) && line.inode != 0
    };
    if let Some(line) = find(&fs::read_to_string("/proc/net/tcp")?, there) {
        return Ok(Some(line.user));
    }
    // Some programs reach IPv4 addresses with sockets for IPv6. A system without IPv6 has no table.
    let table = fs::read_to_string("/proc/net/tcp6").unwrap_or_default();
    Ok(find(&table, there).map(|line| line.user))
}

/// A process of this user that listens on one of these ports: its id and its name.
pub fn listener(ports: &[u16]) -> Option<(u32, String)> {
    let listens = |line: &Line<'_>| line.state == LISTEN && ports.contains(&line.local.port());
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let Line { inode, .. } = find(&table, listens)?;
    let socket = PathBuf::from(format!("socket:[{inode}]"));
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(open) = fs::read_dir(process.path().join("fd")) else { continue };
        if open.flatten().any(|fd| fs::read_link(fd.path()).is_ok_and(|link| link == socket)) {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((id, name.trim().to_owned()));
        }
    }
    None
}

fn find<'a>(table: &'a str, wanted: impl Fn(&Line<'a>) -> bool) -> Option<Line<'a>> {
    table.lines().filter_map(parse).find(wanted)
}

/// A line as in `/proc/net/tcp`; `None` for the heading, and for addresses of IPv6.
fn parse(line: &str) -> Option<Line<'_>> {
    let mut words = line.split_whitespace();
    let local = address(words.nth(1)?)?;
    let remote = address(words.next()?)?;
    let state = words.next()?;
    let user = words.nth(3)?.parse().ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    Some(Line { local, remote, state, user, inode })
}

/// The address is a number in the byte order of the machine; of one inside IPv6, its last part is.
fn address(text: &str) -> Option<SocketAddrV4> {
    let (ip, port) = text.split_once(':')?;
    let ip = match ip.len() {
        8 => ip,
        32 => {
            let (above, ip) = ip.split_at(24);
            let mapped = ["0000000000000000FFFF0000", "00000000000000000000FFFF"];
            mapped.contains(&above).then_some(ip)?
        }
        _ => return None,
    };
    let ip = Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?.to_ne_bytes());
    Some(SocketAddrV4::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};

    use super::*;

    fn v4(address: SocketAddr) -> SocketAddrV4 {
        match address {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(address) => {
                SocketAddrV4::new(address.ip().to_ipv4_mapped().unwrap(), address.port())
            }
        }
    }

    #[test]
    fn a_listener_passes_the_lack_of_pacing_on_to_its_connections() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        send_unpaced(&listener);
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(rustix::net::sockopt::tcp_congestion(&server).unwrap(), "reno");
    }

    #[test]
    fn the_other_end_of_a_connection_is_known_while_it_is_open() {
        let own = rustix::process::geteuid().as_raw();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let here = v4(listener.local_addr().unwrap());
        let mapped = SocketAddrV6::new(here.ip().to_ipv6_mapped(), here.port(), 0, 0);
        for address in [SocketAddr::V4(here), SocketAddr::V6(mapped)] {
            let client = match TcpStream::connect(address) {
                Ok(client) => client,
                // There is no IPv6 here.
                Err(_) if address.is_ipv6() => continue,
                Err(error) => panic!("{error}"),
            };
            let (server, peer) = listener.accept().unwrap();
            let user = || peer_user(here, v4(peer)).unwrap();
            assert_eq!(user(), Some(own), "{address}");
            drop(client);
            // The end of the client has arrived once nothing more can be read.
            assert_eq!(io::Read::read(&mut &server, &mut [0]).unwrap(), 0);
            assert_eq!(user(), None, "{address}");
        }
        let other = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        assert_eq!(peer_user(here, other).unwrap(), None);
    }

    #[test]
    fn the_process_that_listens_is_named() {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(listener(&[port]).map(|(id, _)| id), Some(std::process::id()));
        drop(socket);
        assert_eq!(listener(&[port]), None);
    }

    #[test]
    fn addresses_are_read_as_the_system_writes_them() {
        let local = |port| Some(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        let hex = |ip: Ipv4Addr| format!("{:08X}", u32::from_ne_bytes(ip.octets()));
        let own = hex(Ipv4Addr::LOCALHOST);
        assert_eq!(address(&format!("{own}:1F90")), local(8080));
        let long = |ip: Ipv6Addr| {
            let octets = ip.octets();
            let words = octets.chunks(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap()));
            words.map(|word| format!("{word:08X}")).collect::<Vec<_>>().concat()
        };
        let mapped = long(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        assert_eq!(address(&format!("{mapped}:0001")), local(1));
        assert_eq!(address(&format!("{}:0001", long(Ipv6Addr::LOCALHOST))), None);
        for odd in ["", ":", "0100007F", "0100007G:1", "0100007F:10000", "local_address"] {
            assert_eq!(address(odd), None, "{odd}");
        }
    }
}
