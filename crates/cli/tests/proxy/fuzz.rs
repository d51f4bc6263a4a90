//! Requests as a stranger to the rules would write them, on one connection after the other. What
//! arrives at the server is compared with what a strict reader finds in the same bytes: a request
//! more, less or other than that is a request smuggled.
//!
//! `KEYWARD_FUZZ_SECONDS` and `KEYWARD_FUZZ_SEED` make it longer, and the same again.

use std::{
    collections::VecDeque,
    fs::File,
    io::{Read, Write},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use crate::{
    stage::Stage,
    strict::{self, Message},
    upstream::{MARK, Upstream},
    wire::Card,
};

/// How long a test run of everybody's goes on.
const SECONDS: u64 = 5;
/// A proxy that waits for more of a request is left alone after this.
const PATIENCE: Duration = Duration::from_millis(40);
/// Proxies at once: most of the time goes by waiting.
const LINES: u64 = 4;

#[test]
fn what_arrives_is_what_was_sent_and_nothing_else() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(number("KEYWARD_FUZZ_SECONDS").unwrap_or(SECONDS));
    let seed = number("KEYWARD_FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let (cases, passed) = thread::scope(|scope| {
        let lines = (0..LINES).map(|line| scope.spawn(move || run(seed, line, time)));
        let lines: Vec<_> = lines.collect();
        let sum = |(cases, passed), (more, other)| (cases + more, passed + other);
        lines.into_iter().map(|line| line.join().unwrap()).fold((0, 0), sum)
    });
    println!("seed {seed}: {cases} connections, {passed} requests passed");
    assert!(passed > cases / 3, "too little passed to mean anything: {passed} of {cases}");
}

/// Connection after connection to a proxy of its own. How many, and how many requests arrived.
fn run(seed: u64, line: u64, time: Duration) -> (u64, u64) {
    let upstream = Upstream::start();
    let stage = Stage::new();
    stage.write("config", &upstream.kubeconfig);
    let mut proxy = stage.proxy(&[]);
    // It tells of every refusal, and would wait for a reader.
    let stderr = proxy.stderr.get_ref().as_fd().try_clone_to_owned().unwrap();
    let listening = thread::spawn(move || std::io::read_to_string(File::from(stderr)).unwrap());
    let card = Card::read(&proxy.kubeconfig, 0);
    let settings = card.settings(true);
    let mut chance = Chance(seed.wrapping_mul(LINES).wrapping_add(line));
    let begin = Instant::now();
    let (mut cases, mut passed) = (0_u64, 0_u64);
    // What was sent and has not arrived: a request may still be on its way when its client is gone.
    let mut open = VecDeque::new();
    while begin.elapsed() < time {
        cases += 1;
        let sent = script(&mut chance, &card.address.to_string(), cases);
        let requests = strict::all(&sent).0;
        open.extend(requests.iter().cloned());
        while open.len() > 1000 {
            open.pop_front();
        }
        let mut stream = card.connect(settings.clone(), &card.server_name);
        // A proxy that finds fault may end the connection while more is written.
        let _ = stream.write_all(&sent);
        stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
        if chance.one_in(4) {
            stream.conn.send_close_notify();
            let _ = stream.flush();
            let _ = stream.sock.shutdown(std::net::Shutdown::Write);
        }
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers);
        let arrived = upstream.take();
        passed += arrived.len() as u64;
        let wrong = compare(&mut open, &arrived).and_then(|()| answered(&requests, &answers));
        if let Err(wrong) = wrong {
            panic!(
                "seed {seed}, line {line}, case {cases}: {wrong}\nsent:\n{}\narrived:\n{arrived:?}",
                String::from_utf8_lossy(&sent)
            );
        }
        let broken = upstream.broken();
        assert!(broken.is_empty(), "seed {seed}, line {line}, case {cases}: not HTTP: {broken:?}");
    }
    assert!(proxy.child.try_wait().unwrap().is_none(), "the proxy ended");
    let (status, rest) = proxy.end();
    let said = listening.join().unwrap() + &rest;
    assert!(status.success() && !said.contains("panicked"), "{said}");
    (cases, passed)
}

/// Everything that arrived was sent, once, and with the same content.
fn compare(sent: &mut VecDeque<Message>, arrived: &[Message]) -> Result<(), String> {
    for message in arrived {
        // The latest first: that is the one that most likely has arrived.
        let Some(place) = sent.iter().rposition(|original| is_same(original, message)) else {
            return Err(format!("not sent, or arrived twice: {message:?}"));
        };
        let original = sent.remove(place).unwrap();
        if message.values("authorization").collect::<Vec<_>>() != ["Bearer secret-of-the-proxy"] {
            return Err(format!("another authorization than the proxy's: {message:?}"));
        }
        for name in ["impersonate-user", "origin", "authorization"] {
            if original.values(name).next().is_some() {
                return Err(format!("`{name}` was let through: {original:?}"));
            }
        }
        if message.values("impersonate-user").next().is_some() {
            return Err(format!("somebody else: {message:?}"));
        }
    }
    Ok(())
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

fn is_same(original: &Message, message: &Message) -> bool {
    // What the client itself says is about the connection only goes no further.
    let dropped = original.values("connection").any(|value| value.contains("X-Plain"));
    let plain = original.values("x-plain").filter(|_| !dropped);
    message.method == original.method
        && message.target == original.path()
        && message.body == original.body
        && message.values(MARK).eq(original.values(MARK))
        && message.values("x-plain").eq(plain)
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
        let odd = match chance.below(19) {
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
            17 => "TE: trailers".to_owned(),
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

/// Numbers that look random and come again with the same seed (`SplitMix64`).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}
