//! HTTP/1.1, one request after the other.

use std::{
    io::{Read, Write},
    time::Duration,
};

use super::{Chance, Tongue, Wire};
use crate::{
    strict::{self, Message},
    upstream::MARK,
};

/// A proxy that waits for more of a request is left alone after this.
const PATIENCE: Duration = Duration::from_millis(40);

pub(super) const TONGUE: Tongue =
    Tongue { protocol: "http/1.1", script, read: |sent| strict::all(sent).0, talk, answered };

/// Sends it, and reads what comes back.
fn talk(stream: &mut Wire, sent: &[u8], chance: &mut Chance) -> Vec<u8> {
    // A proxy that finds fault may end the connection while more is written.
    let _ = stream.write_all(sent);
    stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    if chance.one_in(4) {
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.sock.shutdown(std::net::Shutdown::Write);
    }
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    answers
}

/// The n-th answer is the answer to the n-th request, or a refusal of it: one that was lost on the way
/// would shift all that follow.
fn answered(requests: &[Message], answers: &[u8]) -> Result<(), String> {
    let methods = requests.iter().map(|request| &request.method[..]);
    for (place, answer) in strict::responses(answers, methods)?.iter().enumerate() {
        let Some(mark) = answer.value(MARK) else {
            // Our own words: a refusal.
            assert!(answer.code >= 400, "{answer:?}");
            continue;
        };
        let Some(request) = requests.get(place) else {
            return Err(format!("answer {place} is to no request: {answer:?}"));
        };
        if request.values(MARK).collect::<Vec<_>>().join(",") != mark {
            return Err(format!("answer {place} is to another request: {answer:?}"));
        }
    }
    Ok(())
}

/// A connection's worth of requests: mostly by the rules, and then some.
fn script(chance: &mut Chance, host: &str, case: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..=chance.below(3) {
        let mark = format!("{case:09}-{number}");
        out.extend(request(chance, host, &mark));
    }
    if !chance.one_in(4) {
        let last = "GET /last HTTP/1.1\r\nConnection: close\r\n";
        out.extend(format!("{last}Host: {host}\r\nX-Case: {case:09}-last\r\n\r\n").into_bytes());
    }
    // Bytes that change on the way, now and then.
    if chance.one_in(4) {
        for _ in 0..=chance.below(3) {
            let place = chance.below(out.len() as u64);
            let byte = *chance.pick(&[b'\r', b'\n', 0, b' ', b':', b'0', b'\t', 0xff, b'a', b';']);
            match chance.below(3) {
                0 => out[usize::try_from(place).unwrap()] = byte,
                1 => out.insert(usize::try_from(place).unwrap(), byte),
                _ => drop(out.remove(usize::try_from(place).unwrap())),
            }
        }
    }
    out
}

fn request(chance: &mut Chance, host: &str, mark: &str) -> Vec<u8> {
    let method = *chance.pick(&["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "get"]);
    let target = match chance.below(24) {
        0 => format!("https://{host}/absolute"),
        1 => "https://evil.example/x".to_owned(),
        2 => "//evil.example/x".to_owned(),
        3 => "/a/../b/./c".to_owned(),
        4 => "/a%2e%2e/%00?x=%0d%0aHost:%20evil".to_owned(),
        5 => "*".to_owned(),
        6 => "/a b".to_owned(),
        7 => "/a#b".to_owned(),
        _ => "/api/v1/pods?limit=5".to_owned(),
    };
    let version = match chance.below(20) {
        0 => "HTTP/1.0",
        1 => "HTTP/2.0",
        _ => "HTTP/1.1",
    };
    let hidden = format!("GET /smuggled HTTP/1.1\r\nHost: {host}\r\nX-Case: {mark}x\r\n\r\n");
    let mut lines = vec![format!("X-Case: {mark}")];
    if !chance.one_in(30) {
        lines.push(format!("Host: {host}"));
    }
    let mut body = Vec::new();
    match chance.below(6) {
        0 => {
            body = hidden.clone().into_bytes();
            lines.push(format!("Content-Length: {}", body.len()));
        }
        1 | 2 => {
            body = chunked(chance, &hidden);
            let coding = *chance.pick(&[
                "chunked",
                "chunked",
                "chunked",
                "chunked",
                "chunked",
                "chunked",
                "Chunked",
                "gzip, chunked",
                "chunked, chunked",
                "xchunked",
                "chunked\t",
                "identity",
                "\x0bchunked",
            ]);
            lines.push(format!("Transfer-Encoding: {coding}"));
        }
        _ => {}
    }
    let odds = if chance.one_in(2) { chance.below(3) } else { 0 };
    for _ in 0..odds {
        let odd = match chance.below(20) {
            0 => format!("Content-Length: {}", chance.below(60)),
            1 => "Content-Length: +5".to_owned(),
            2 => "Content-Length: 5, 5".to_owned(),
            3 => "Content-Length : 5".to_owned(),
            4 => "Transfer-Encoding : chunked".to_owned(),
            5 => "Transfer-Encoding: identity".to_owned(),
            6 => "X-Plain: a\r\n b".to_owned(),
            7 => "Connection: X-Plain, Content-Length".to_owned(),
            8 => "Connection: Transfer-Encoding".to_owned(),
            9 => "Upgrade: h2c\r\nConnection: Upgrade".to_owned(),
            10 => "Upgrade: websocket\r\nConnection: Upgrade".to_owned(),
            11 => "Impersonate-User: admin".to_owned(),
            12 => "Expect: 100-continue".to_owned(),
            13 => "Authorization: Bearer mine".to_owned(),
            14 => "Trailer: X-Case".to_owned(),
            15 => "Connection: Impersonate-User, Authorization".to_owned(),
            16 => "Transfer-Encoding: chunked".to_owned(),
            17 => "TE: trailers\r\nConnection: TE".to_owned(),
            18 => "Upgrade: websocket".to_owned(),
            _ => format!("X-Plain: {}", chance.below(1000)),
        };
        lines.push(odd);
    }
    let start = usize::try_from(chance.below(lines.len() as u64)).unwrap();
    lines.rotate_left(start);
    let mut out = format!("{method} {target} {version}\r\n{}\r\n\r\n", lines.join("\r\n"));
    if chance.one_in(25) {
        out = out.replace("\r\n", "\n");
    }
    [out.into_bytes(), body].concat()
}

fn chunked(chance: &mut Chance, hidden: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let pieces = match chance.below(6) {
        0 | 1 => vec!["abc", hidden],
        2 => vec![],
        _ => vec!["hello ", "world"],
    };
    for piece in pieces {
        let size = match chance.below(24) {
            0 => format!("0{:x}", piece.len()),
            1 => format!("{:X};ext=\"1\"", piece.len()),
            2 => format!("{:x} ", piece.len()),
            3 => format!("0x{:x}", piece.len()),
            4 => format!("1{:016x}", piece.len()),
            5 => format!("{:x}", piece.len() + 1),
            _ => format!("{:x}", piece.len()),
        };
        out.extend(format!("{size}\r\n{piece}\r\n").into_bytes());
    }
    out.extend_from_slice(match chance.below(16) {
        0 => b"0\r\nX-Case: trailer\r\n\r\n",
        1 => b"0\r\nX-Case: trailer\n\n",
        2 => b"0\r\n\n",
        3 => b"0\n\r\n",
        4 => b"0\n\n",
        5 => b"0\r\n\r",
        6 => b"0;x=\"\r\n\r\n",
        7 => b"0\r\nAuthorization: Bearer mine\r\n\r\n",
        _ => b"0\r\n\r\n",
    });
    out
}
