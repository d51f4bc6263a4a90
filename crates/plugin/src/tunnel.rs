//! Connections to a server, straight or through a proxy.

use std::{
    io::{self, Error, ErrorKind, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_protocol::Url;
use zeroize::Zeroizing;

/// More than any proxy says before a tunnel stands.
const LONGEST_REPLY: usize = 16 * 1024;

/// Connects to the first address of `host` that answers.
pub(crate) fn dial(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = Error::new(ErrorKind::NotFound, format!("`{host}` has no address"));
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects to `host` through a proxy.
pub(crate) fn through(
    proxy: &Url,
    host: &str,
    port: u16,
    patience: Duration,
) -> io::Result<TcpStream> {
    let at = proxy
        .host()
        .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "the proxy's URL has no host"))?;
    let reach = |standard: u16| dial(at, proxy.port().unwrap_or(standard), patience);
    match proxy.scheme() {
        "http" => {
            let mut stream = reach(80)?;
            connect(&mut stream, proxy, host, port)?;
            Ok(stream)
        }
        "socks5" | "socks5h" => {
            let mut stream = reach(1080)?;
            socks(&mut stream, proxy, host, port)?;
            Ok(stream)
        }
        _ => Err(Error::new(
            ErrorKind::Unsupported,
            "a proxy must have the scheme `http`, `socks5` or `socks5h`",
        )),
    }
}

/// Asks an HTTP proxy for a tunnel.
fn connect(stream: &mut TcpStream, proxy: &Url, host: &str, port: u16) -> io::Result<()> {
    let target =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"));
    if let Some(user) = proxy.user() {
        let password = user.password.as_ref().map_or("", |p| p.expose());
        let pair = Zeroizing::new(format!("{}:{password}", user.name));
        request.push_str("Proxy-Authorization: Basic ");
        STANDARD.encode_string(pair.as_bytes(), &mut request);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes())?;

    // Byte by byte: what follows the empty line belongs to the server.
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n\r\n") {
        if reply.len() == LONGEST_REPLY {
            return Err(Error::new(ErrorKind::InvalidData, "the proxy's reply has no end"));
        }
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        reply.push(byte[0]);
    }
    match status(&reply) {
        Some(200..=299) => Ok(()),
        Some(code) => Err(Error::other(format!("the proxy refused the tunnel with status {code}"))),
        None => Err(Error::new(ErrorKind::InvalidData, "the proxy's reply is not HTTP")),
    }
}

/// The status code of an HTTP/1 reply.
fn status(reply: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(reply.split(|b| *b == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    words.next().filter(|w| w.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

/// Asks a SOCKS5 proxy (RFC 1928, RFC 1929) for a tunnel. The proxy resolves the name.
fn socks(stream: &mut TcpStream, proxy: &Url, host: &str, port: u16) -> io::Result<()> {
    const VERSION: u8 = 5;
    const OPEN: u8 = 0;
    const PASSWORD: u8 = 2;
    let refused = |why: &str| Error::other(format!("the proxy {why}"));

    let methods: &[u8] = match proxy.user() {
        Some(_) => &[VERSION, 2, OPEN, PASSWORD],
        None => &[VERSION, 1, OPEN],
    };
    stream.write_all(methods)?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen)?;
    match (chosen, proxy.user()) {
        ([VERSION, OPEN], _) => {}
        ([VERSION, PASSWORD], Some(user)) => {
            let password = user.password.as_ref().map_or("", |p| p.expose());
            let mut login = Zeroizing::new(vec![1]);
            push_short(&mut login, user.name.as_bytes())?;
            push_short(&mut login, password.as_bytes())?;
            stream.write_all(&login)?;
            let mut verdict = [0; 2];
            stream.read_exact(&mut verdict)?;
            if verdict[1] != 0 {
                return Err(refused("did not accept the user name and password"));
            }
        }
        _ => return Err(refused("wants another way of logging in")),
    }

    let mut request = vec![VERSION, 1, 0, 3];
    push_short(&mut request, host.as_bytes())?;
    request.extend(port.to_be_bytes());
    stream.write_all(&request)?;
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    if head[1] != 0 {
        return Err(refused(&format!("refused the tunnel with code {}", head[1])));
    }
    let length = match head[3] {
        1 => 4,
        4 => 16,
        3 => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            usize::from(length[0])
        }
        _ => return Err(refused("sent an address of an unknown kind")),
    };
    let mut address_and_port = vec![0; length + 2];
    stream.read_exact(&mut address_and_port)
}

/// Appends bytes after their number, which must fit one byte.
fn push_short(out: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    let length = u8::try_from(bytes.len())
        .map_err(|_| Error::new(ErrorKind::InvalidInput, "too long a name for SOCKS5"))?;
    out.push(length);
    out.extend_from_slice(bytes);
    Ok(())
}
