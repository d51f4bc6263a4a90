//! What the proxy's own clients can use up.

use std::{
    io::{Read as _, Write as _},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::memory,
    stage::{Proxy, Stage, server},
    untried,
    upstream::{self, Upstream},
    wire::{Card, Stream},
};

pub const ALL: &[Line] = &[
    ("L15-idle", "as many idle connections as a process may usually have files", idle),
    ("L15-heads", "heads that never end", half_heads),
    ("L15-h2", "idle connections over HTTP/2", idle_h2),
    ("L15-streams", "streams that nobody reads", unread),
    (
        "L15-all+",
        "2,000 idle connections, 1,000 half heads and 400 unread streams at once",
        all_at_once,
    ),
];

/// Our own files, for as many connections as the attack needs.
fn raise() {
    let now = getrlimit(Resource::Nofile);
    let most = Rlimit { current: now.maximum, maximum: now.maximum };
    let _ = setrlimit(Resource::Nofile, most);
}

/// A proxy that begins with the usual 1,024 files and may raise them.
fn usual(stage: &Stage) -> Result<Proxy, Failure> {
    raise();
    let mut command = stage.shell("ulimit -Sn 1024; exec \"$KEYWARD\" \"$@\"");
    command.arg("sh");
    stage.proxy_of(command, &[])
}

/// Whether another request proceeds while the attack is on.
fn proceeds(card: &Card) -> Result<Duration, Failure> {
    let began = Instant::now();
    for _ in 0..3 {
        if !card.is_served("/version") {
            return got_through(format!("another request fails after {:.1?}", began.elapsed()));
        }
    }
    Ok(began.elapsed() / 3)
}

/// Connections that have shown their certificate and say no more.
fn open(card: &Card, count: usize) -> Result<Vec<Stream>, Failure> {
    let mut all = Vec::new();
    for number in 0..count {
        match card.connect() {
            Ok(stream) => all.push(stream),
            Err(error) => return got_through(format!("connection {number} fails: {error}")),
        }
    }
    Ok(all)
}

fn idle(stage: &Stage) -> Outcome {
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = usual(stage)?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    proceeds(&card)?;
    let held = open(&card, 1_100)?;
    let took = proceeds(&card)?;
    Ok(format!("{} are open, others take {took:.1?}", held.len()))
}

fn half(card: &Card, count: usize) -> Result<Vec<Stream>, Failure> {
    let mut held = open(card, count)?;
    for stream in &mut held {
        let request = format!("GET {}/version HTTP/1.1\r\nHost: {}\r\nX-", card.prefix, card.host);
        stream.write_all(request.as_bytes())?;
    }
    Ok(held)
}

/// Whether the other side has ended the connection.
fn is_ended(stream: &mut Stream) -> bool {
    let _ = stream.sock.set_read_timeout(Some(Duration::from_millis(5)));
    let mut piece = [0; 1024];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut];
                return !waits.contains(&error.kind());
            }
        }
    }
}

fn half_heads(stage: &Stage) -> Outcome {
    are_ended(stage, |card| half(card, 50))
}

/// Connections that have begun HTTP/2, every second one with half a request.
fn idle_h2(stage: &Stage) -> Outcome {
    are_ended(stage, |card| {
        let begin = |number: u32| {
            let mut stream = crate::h2::begin(card)?;
            let block = crate::h2::get(card, "/version", &[]);
            // It ends the stream, not the head.
            let half = crate::h2::frame(crate::h2::HEADERS, 1, 1, &block);
            stream.write_all(&half.repeat((number % 2) as usize))?;
            Ok(stream)
        };
        (0..50).map(begin).collect()
    })
}

/// Whether these connections are ended.
fn are_ended(stage: &Stage, open: impl Fn(&Card) -> Result<Vec<Stream>, Failure>) -> Outcome {
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = usual(stage)?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    let mut held = open(&card)?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(50) {
        held.retain_mut(|stream| !is_ended(stream));
        if held.is_empty() {
            proceeds(&card)?;
            return Ok(format!("all closed after {:.0?}", began.elapsed()));
        }
        thread::sleep(Duration::from_millis(200));
    }
    got_through(format!("{} of 50 are open after 50 s", held.len()))
}

/// A server whose `/endless` never ends.
fn endless() -> Result<Upstream, Failure> {
    Upstream::start(|mut stream, _| {
        loop {
            let Some(head) = upstream::head(&mut stream) else { return };
            if head.starts_with(b"GET /endless") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                let piece = [b"4000\r\n".to_vec(), vec![b'x'; 0x4000], b"\r\n".to_vec()].concat();
                while stream.write_all(&piece).is_ok() {}
                return;
            }
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    })
}

fn streams(card: &Card, count: usize) -> Result<Vec<Stream>, Failure> {
    let mut held = open(card, count)?;
    for stream in &mut held {
        let request =
            format!("GET {}/endless HTTP/1.1\r\nHost: {}\r\n\r\n", card.prefix, card.host);
        stream.write_all(request.as_bytes())?;
    }
    Ok(held)
}

/// HTTP/2 streams that nobody reads, on connections with windows as large as they get.
fn h2_streams(card: &Card, connections: usize, each: u32) -> Result<Vec<Stream>, Failure> {
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut stream = crate::h2::begin(card)?;
        for number in 0..each {
            let block = crate::h2::get(card, "/endless", &[]);
            stream.write_all(&crate::h2::frame(crate::h2::HEADERS, 5, number * 2 + 1, &block))?;
        }
        held.push(stream);
    }
    Ok(held)
}

fn rss(proxy: &Proxy) -> u64 {
    memory(proxy.running.pid(), "VmRSS")
}

/// Memory once all buffers are full: a loaded machine takes a while to fill them.
fn settled(proxy: &Proxy) -> u64 {
    const STEADY: u32 = 4;
    let (mut last, mut same) = (0, 0);
    crate::process::wait_until(Duration::from_secs(60), || {
        thread::sleep(Duration::from_millis(500));
        let now = rss(proxy);
        same = if now.abs_diff(last) < 512 { same + 1 } else { 0 };
        last = now;
        same == STEADY
    });
    last
}

fn unread(stage: &Stage) -> Outcome {
    let upstream = endless()?;
    stage.write("config", upstream.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = usual(stage)?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    proceeds(&card)?;
    let before = rss(&proxy);
    let mut held = streams(&card, 100)?;
    held.extend(h2_streams(&card, 4, 25)?);
    let during = settled(&proxy).saturating_sub(before);
    proceeds(&card)?;
    drop(held);
    let limit = Duration::from_secs(60);
    let back = crate::process::wait_until(limit, || rss(&proxy) < before + 10_240);
    let after = rss(&proxy).saturating_sub(before) / 1024;
    let seen = format!("200 streams take {} MB, {after} MB stay", during / 1024);
    if during > 100_000 || !back {
        return got_through(seen);
    }
    Ok(seen)
}

fn all_at_once(stage: &Stage) -> Outcome {
    let upstream = endless()?;
    stage.write("config", upstream.kubeconfig(&json!({ "token": "good" })))?;
    let proxy = usual(stage)?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    proceeds(&card)?;
    if getrlimit(Resource::Nofile).maximum.is_some_and(|most| most < 10_000) {
        return untried("it takes 10,000 files: raise the hard limit (`ulimit -Hn`)");
    }
    // What every proxy that was used has in memory.
    drop(open(&card, 20)?);
    let before = rss(&proxy);
    let mut held = streams(&card, 200)?;
    held.extend(h2_streams(&card, 8, 25)?);
    held.extend(open(&card, 2_000)?);
    held.extend(half(&card, 1_000)?);
    let took = proceeds(&card)?;
    let during = rss(&proxy).saturating_sub(before) / 1024;
    drop(held);
    thread::sleep(Duration::from_secs(60));
    let after = rss(&proxy).saturating_sub(before) / 1024;
    proceeds(&card)?;
    let seen = format!("{during} MB meanwhile, others take {took:.1?}, {after} MB a minute later");
    if after > 10 { got_through(seen) } else { Ok(seen) }
}
