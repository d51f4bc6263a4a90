//! HTTP `CONNECT`.

use std::io;

use base64::{Engine, engine::general_purpose::STANDARD};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Shared, carry};

/// The largest head taken.
const LIMIT: usize = 16 * 1024;

const GOOD: &str = "HTTP/1.1 200 Connection established\r\n\r\n";
const BAD: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const NOT_CONNECT: &str = "HTTP/1.1 405 Method Not Allowed\r\nAllow: CONNECT\r\nContent-Length: 0\r\n\
     Connection: close\r\n\r\n";
const WHO: &str = "HTTP/1.1 407 Proxy Authentication Required\r\n\
     Proxy-Authenticate: Basic realm=\"proxy\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const UNREACHABLE: &str =
    "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(super) async fn serve<T>(shared: &Shared, mut client: T) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Some(head) = read_head(&mut client).await? else {
        return refuse(client, BAD).await;
    };
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != "CONNECT" {
        return refuse(client, NOT_CONNECT).await;
    }
    let Some((host, port)) = split(target) else {
        return refuse(client, BAD).await;
    };
    let pair = lines.find_map(credential);
    let given = pair.as_deref().and_then(|pair| pair.split_once(':'));
    if !shared.allows(given) {
        return refuse(client, WHO).await;
    }
    let Ok(server) = shared.connect(host, port).await else {
        return refuse(client, UNREACHABLE).await;
    };
    client.write_all(GOOD.as_bytes()).await?;
    client.flush().await?;
    carry(client, server).await
}

/// Reads up to the empty line and not beyond it. `None` when it does not come.
async fn read_head(client: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    // Byte by byte: what follows the head belongs to the tunnel.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= LIMIT {
            return Ok(None);
        }
        head.push(client.read_u8().await?);
    }
    Ok(String::from_utf8(head).ok())
}

async fn refuse(mut client: impl AsyncWrite + Unpin, answer: &str) -> io::Result<()> {
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

/// `HOST:PORT`, the host without brackets.
fn split(target: &str) -> Option<(&str, u16)> {
    let (host, port) = target.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Some((host, port.parse().ok()?))
}

/// The `USER:PASSWORD` of a header line, if it is that header.
fn credential(line: &str) -> Option<String> {
    let (name, value) = line.split_once(':')?;
    if !name.eq_ignore_ascii_case("proxy-authorization") {
        return None;
    }
    let (scheme, rest) = value.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()
}
