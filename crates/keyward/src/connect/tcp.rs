//! Opens a socket to a host: tries its addresses, IPv6 and IPv4 in turn, each with a short head start.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::Tracer;

/// How long an address has before the next one is tried beside it (RFC 8305 says 250 ms).
const HEAD_START: Duration = Duration::from_millis(250);

/// How long a silent peer is left alone before it is probed, as in Go.
const PROBE: Duration = Duration::from_secs(15);

/// Connects to the first address that answers. Errors do not name the host.
pub(super) async fn dial(host: &str, port: u16, tracer: &Tracer) -> io::Result<TcpStream> {
    let addresses = resolve(host, port).await?;
    tracer.resolved(&addresses);
    let stream = race(addresses).await?;
    let peer = stream.peer_addr();
    // Small requests must not wait for acknowledgements of earlier ones.
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    #[cfg(target_os = "linux")]
    if peer.as_ref().is_ok_and(|peer| peer.ip().is_loopback()) {
        keyward_process::sockets::send_unpaced(&stream);
    }
    tracer.connected(peer);
    Ok(stream)
}

/// Lets the system notice that a peer is gone: a watch over HTTP/1.1 would wait forever.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let probes = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE);
    SockRef::from(stream).set_tcp_keepalive(&probes)
}

async fn resolve(host: &str, port: u16) -> io::Result<VecDeque<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok([SocketAddr::new(address, port)].into());
    }
    if let Some(address) = zoned(host, port) {
        return Ok([address.into()].into());
    }
    let (v6, v4): (Vec<_>, Vec<_>) =
        tokio::net::lookup_host((host, port)).await?.partition(SocketAddr::is_ipv6);
    Ok(alternate(&v6, &v4))
}

/// An address with a zone, such as `fe80::1%eth0`. Resolvers know zones of link-local addresses only;
/// Go takes them for all, and leaves out one that it does not know.
fn zoned(host: &str, port: u16) -> Option<SocketAddrV6> {
    let (address, zone) = host.split_once('%')?;
    let index = interface(zone).or_else(|| zone.parse().ok()).unwrap_or(0);
    Some(SocketAddrV6::new(address.parse().ok()?, port, 0, index))
}

#[cfg(target_os = "linux")]
fn interface(name: &str) -> Option<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
    netdevice::name_to_index(socket, name).ok()
}

#[cfg(not(target_os = "linux"))]
fn interface(_name: &str) -> Option<u32> {
    None
}

fn alternate(first: &[SocketAddr], second: &[SocketAddr]) -> VecDeque<SocketAddr> {
    (0..first.len().max(second.len()))
        .flat_map(|turn| first.get(turn).into_iter().chain(second.get(turn)))
        .copied()
        .collect()
}

async fn race(mut waiting: VecDeque<SocketAddr>) -> io::Result<TcpStream> {
    let mut running = FuturesUnordered::new();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        if let Some(address) = waiting.pop_front() {
            running.push(TcpStream::connect(address));
        }
        let head_start = async {
            if waiting.is_empty() {
                std::future::pending::<()>().await;
            } else {
                tokio::time::sleep(HEAD_START).await;
            }
        };
        tokio::select! {
            done = running.next() => match done {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => last = error,
                None => return Err(last),
            },
            () = head_start => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn families_take_turns_and_none_is_lost() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let v6 = ["[::1]:1", "[::2]:1", "[::3]:1"].map(address);
        let v4 = ["127.0.0.1:1"].map(address);
        let order = alternate(&v6, &v4);
        assert_eq!(order, [v6[0], v4[0], v6[1], v6[2]]);
        assert_eq!(alternate(&[], &v4), v4);
    }

    #[test]
    fn a_zone_is_the_name_or_number_of_an_interface() {
        let scope = |host: &str| zoned(host, 1).map(|address| address.scope_id());
        assert_eq!(scope("fe80::1%7"), Some(7));
        assert_eq!(scope("fe80::1%no-such-interface"), Some(0));
        assert_eq!(scope("fe80::1"), None);
        assert_eq!(scope("host%7"), None);
        #[cfg(target_os = "linux")]
        assert_eq!(scope("::1%lo"), Some(1));
    }

    #[tokio::test]
    async fn an_address_that_refuses_gives_way_to_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let closed = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let stream = race([closed, open].into()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn a_silent_peer_is_probed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = dial("127.0.0.1", listener.local_addr().unwrap().port(), &Tracer::default())
            .await
            .unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(
            (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap()),
            (PROBE, PROBE)
        );
    }

    #[tokio::test]
    async fn a_name_without_addresses_is_an_error() {
        assert!(race(VecDeque::new()).await.is_err());
    }
}
