//! Requests that two readers could read in two ways, and frames that use up the reader.

use std::{
    io::{Read as _, Write as _},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    h2::{self, frame},
    process::memory,
    stage::{Proxy, Stage},
    untried,
    upstream::Upstream,
    wire::{Card, status},
};

pub const ALL: &[Line] = &[
    ("held-http1", "110 requests of HTTP/1.1 that hide another one", smuggling),
    ("held-http2", "75 requests of HTTP/2 that become two in HTTP/1.1", h2_smuggling),
    ("held-frames", "19 attacks by frames of HTTP/2", h2_frames),
    ("held-host", "13 spellings of `Host` that are not the proxy's", hosts),
];

/// What is wrong, where a server's reader finds it.
struct Listening {
    /// The targets of all requests that arrived, as a strict reader of HTTP/1.1 finds them.
    targets: Arc<Mutex<Vec<String>>>,
    proxy: Proxy,
    card: Card,
}

/// A server that writes down what it gets, and a proxy before it.
fn listening(stage: &Stage) -> Result<Listening, Failure> {
    let targets: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = targets.clone();
    let upstream = Upstream::start(move |mut stream, _| {
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            while let Some((target, used)) = message(&bytes) {
                bytes.drain(..used);
                if let Ok(mut all) = kept.lock() {
                    all.push(target);
                }
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n").is_err() {
                    return;
                }
            }
            match stream.read(&mut piece) {
                Ok(size) if size > 0 => bytes.extend_from_slice(&piece[..size]),
                _ => return,
            }
        }
    })?;
    stage.write("config", upstream.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = stage.proxy(&[])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    if !card.is_served("/control") {
        return untried(proxy.running.stderr());
    }
    Ok(Listening { targets, proxy, card })
}

/// The first whole message: its target and its length.
fn message(bytes: &[u8]) -> Option<(String, usize)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let target = head.split(' ').nth(1).unwrap_or("none").to_owned();
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if value("transfer-encoding:").is_some() {
        let mut at = end;
        loop {
            let line = bytes[at..].windows(2).position(|window| window == b"\r\n")?;
            let size = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
            let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).unwrap_or(0);
            at += line + 2 + size + 2;
            if bytes.len() < at {
                return None;
            }
            if size == 0 {
                return Some((target, at));
            }
        }
    }
    let length = value("content-length:").and_then(|length| length.parse().ok()).unwrap_or(0);
    (bytes.len() >= end + length).then_some((target, end + length))
}

impl Listening {
    /// Whether a request of its own with this path has arrived since the last look.
    fn arrived(&self, path: &str) -> bool {
        let all = self.targets.lock().map(|mut all| std::mem::take(&mut *all));
        all.unwrap_or_default().iter().any(|target| target.ends_with(path))
    }
}

fn smuggling(stage: &Stage) -> Outcome {
    let there = listening(stage)?;
    let card = &there.card;
    let framings = [
        "Content-Length: 0\r\nContent-Length: 60\r\n",
        "Content-Length: 60\r\nContent-Length: 0\r\n",
        "Content-Length: 0, 60\r\n",
        "Content-Length: +0\r\n",
        "Content-Length: -0\r\n",
        "Content-Length: 0x0\r\n",
        "Content-Length : 0\r\n",
        "Content-Length:\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding:\tchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "X: y\r\n Transfer-Encoding: chunked\r\n",
        "X: y\rTransfer-Encoding: chunked\r\n",
        "X: y\nTransfer-Encoding: chunked\r\n",
        "Connection: Content-Length\r\nContent-Length: 0\r\n",
        "Upgrade: h2c\r\nConnection: Upgrade\r\n",
    ];
    let inner = format!("GET {}/smuggled HTTP/1.1\r\nHost: {}\r\n\r\n", card.prefix, card.host);
    let bodies = [
        inner.clone(),
        format!("0\r\n\r\n{inner}"),
        format!("0\n\n{inner}"),
        format!("1\r\nx\r\n0\r\nX: y\r\n\r\n{inner}"),
        format!("{:x};{}\r\n{inner}\r\n0\r\n\r\n", inner.len(), "e".repeat(20)),
    ];
    let mut tried = 0;
    for framing in framings {
        for text in &bodies {
            // One that the proxy takes for two requests is no smuggling: both are looked at. So it
            // must be seen by nobody but the server.
            let request = format!(
                "POST {}/outer HTTP/1.1\r\nHost: {}\r\nX-Origin: outer\r\n{framing}\r\n{text}",
                card.prefix, card.host
            );
            let mut stream = card.connect()?;
            stream.write_all(request.as_bytes())?;
            stream.sock.set_read_timeout(Some(Duration::from_millis(150)))?;
            let answer = crate::wire::read_to_end(&mut stream);
            let answers = answer.matches("HTTP/1.1 ").count();
            if there.arrived("/smuggled") && answers < 2 {
                return got_through(format!("{framing:?} with {text:?}"));
            }
            tried += 1;
        }
    }
    Ok(format!("{tried} requests, nothing smuggled"))
}

fn h2_smuggling(stage: &Stage) -> Outcome {
    let there = listening(stage)?;
    let card = &there.card;
    let inner = format!("GET {}/smuggled HTTP/1.1", card.prefix);
    let values = [
        format!("x\r\n\r\n{inner}\r\nHost: x\r\n\r\n"),
        format!("x\n\n{inner}\n\n"),
        "chunked".to_owned(),
        "60".to_owned(),
        format!("x\0{inner}"),
    ];
    let names = [
        "x-plain",
        "transfer-encoding",
        "content-length",
        "connection",
        "host",
        "upgrade",
        "te",
        "x\r\ny",
        "x: y",
        "X-Upper",
        "proxy-connection",
        ":path",
        ":method",
        "",
        "trailer",
    ];
    let mut tried = 0;
    for name in names {
        for value in &values {
            let mut stream = h2::begin(card)?;
            let block = h2::get(card, "/outer", &[(name, value)]);
            stream.write_all(&frame(h2::HEADERS, 4, 1, &block))?;
            stream.write_all(&frame(
                h2::DATA,
                1,
                1,
                format!("0\r\n\r\n{inner}\r\n\r\n").as_bytes(),
            ))?;
            stream.sock.set_read_timeout(Some(Duration::from_millis(60)))?;
            crate::wire::read_to_end(&mut stream);
            if there.arrived("/smuggled") {
                return got_through(format!("{name:?}: {value:?}"));
            }
            tried += 1;
        }
    }
    Ok(format!("{tried} requests, nothing smuggled"))
}

fn h2_frames(stage: &Stage) -> Outcome {
    let there = listening(stage)?;
    let (proxy, card) = (&there.proxy, &there.card);
    let before = memory(proxy.running.pid(), "VmRSS");
    let head =
        |number: u32, flags: u8| frame(h2::HEADERS, flags, number, &h2::get(card, "/x", &[]));
    let large = "v".repeat(15_000);
    let odd = |n: u32| n * 2 + 1;
    let attacks: Vec<(&str, Vec<u8>)> = vec![
        ("pings", frame(h2::PING, 0, 0, &[0; 8]).repeat(20_000)),
        ("settings", frame(h2::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]).repeat(20_000)),
        (
            "resets",
            (0..5_000)
                .flat_map(|n| {
                    [head(odd(n), 5), frame(h2::RESET, 0, odd(n), &[0, 0, 0, 8])].concat()
                })
                .collect(),
        ),
        ("streams", (0..2_000).flat_map(|n| head(odd(n), 4)).collect()),
        (
            "continuations",
            [
                head(1, 1),
                frame(h2::CONTINUATION, 0, 1, &h2::fields(&[("x", &large)])).repeat(2_000),
            ]
            .concat(),
        ),
        (
            "empty continuations",
            [head(1, 1), frame(h2::CONTINUATION, 0, 1, &[]).repeat(50_000)].concat(),
        ),
        ("empty data", [head(1, 4), frame(h2::DATA, 0, 1, &[]).repeat(50_000)].concat()),
        (
            "priorities",
            (0..50_000).flat_map(|n| frame(h2::PRIORITY, 0, odd(n), &[0, 0, 0, 0, 9])).collect(),
        ),
        ("windows of nothing", frame(h2::WINDOW, 0, 0, &[0; 4]).repeat(100)),
        ("window overflow", frame(h2::WINDOW, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(10)),
        (
            "large headers",
            (0..20)
                .flat_map(|n| frame(h2::HEADERS, 5, odd(n), &h2::get(card, "/x", &[("a", &large)])))
                .collect(),
        ),
        ("many headers", frame(h2::HEADERS, 5, 1, &h2::get(card, "/x", &[("a", "b"); 3_000]))),
        ("a frame too long", [vec![0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1], vec![0; 100_000]].concat()),
        ("data on no stream", frame(h2::DATA, 0, 99, &[0; 1_000]).repeat(100)),
        ("headers on stream 0", head(0, 5)),
        ("even streams", head(2, 5)),
        ("padding over the end", frame(h2::DATA, 8, 1, &[255; 4])),
        ("unknown frames", frame(200, 0, 0, &[0; 16_000]).repeat(1_000)),
        ("half a frame", vec![0, 0x40, 0, 0, 0, 0, 0]),
    ];
    let count = attacks.len();
    for (name, bytes) in attacks {
        let mut stream = h2::begin(card)?;
        stream.sock.set_write_timeout(Some(Duration::from_secs(2)))?;
        // The proxy may end the connection at any point.
        let _ = stream.write_all(&bytes);
        if !card.is_served("/other") {
            return got_through(format!("{name}: another client is not served"));
        }
        drop(stream);
        let peak = memory(proxy.running.pid(), "VmHWM").saturating_sub(before);
        if peak > 60 * 1024 {
            return got_through(format!("{name}: {} MB", peak / 1024));
        }
    }
    let mut stream = h2::begin(card)?;
    if !h2::is_served(&mut stream, card, 1) {
        return got_through("a good client of HTTP/2 is not served afterwards");
    }
    let peak = memory(proxy.running.pid(), "VmHWM").saturating_sub(before);
    Ok(format!("{count} attacks, at most {} MB", peak / 1024))
}

fn hosts(stage: &Stage) -> Outcome {
    let there = listening(stage)?;
    let card = &there.card;
    let port = card.address.port();
    let spellings = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1:{}", port.wrapping_add(1)),
        format!("127.0.0.1:{port}@evil.example"),
        format!("evil.example@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}/evil"),
        format!("127.0.0.1:{port}, evil.example"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("2130706433:{port}"),
        String::new(),
    ];
    for host in &spellings {
        let answer = card.say(&format!(
            "GET {}/first HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
            card.prefix
        ))?;
        if status(&answer) == 200 || there.arrived("/first") {
            return got_through(format!("`{host}` is accepted"));
        }
    }
    Ok(format!("{} refused", spellings.len()))
}
