//! Requests as a stranger to the rules would write them, on one connection after the other. What
//! arrives at the server is compared with what a strict reader finds in the same bytes: a request
//! more, less or other than that is a request smuggled. The server speaks HTTP/1.1, whatever the
//! client speaks.
//!
//! `KEYWARD_FUZZ_SECONDS` and `KEYWARD_FUZZ_SEED` make it longer, and the same again.

pub(crate) mod frame;
mod hpack;
mod odd;
mod one;
mod two;
mod whole;

use std::{
    collections::VecDeque,
    fs::File,
    net::TcpStream,
    os::fd::AsFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use keyward_testing::chance::Chance;
use rustls::{ClientConnection, StreamOwned};

use crate::{
    stage::Stage,
    strict::Message,
    upstream::{MARK, Upstream},
    wire::Card,
};

/// How long a test run of everybody's goes on.
const SECONDS: u64 = 5;
/// Proxies at once: most of the time goes by waiting.
const LINES: u64 = 4;
/// After so many odd connections a good one has to be served.
const PROOF: u64 = 100;

pub(crate) type Wire = StreamOwned<ClientConnection, TcpStream>;

/// A version of HTTP, spoken badly.
#[derive(Clone, Copy)]
struct Tongue {
    protocol: &'static str,
    /// A connection's worth of requests to this host, for this case.
    script: fn(&mut Chance, &str, u64) -> Vec<u8>,
    /// The requests in it that are by the rules.
    read: fn(&[u8]) -> Vec<Message>,
    /// Sends it; what comes back.
    talk: fn(&mut Wire, &[u8], &mut Chance) -> Vec<u8>,
    /// Whether each answer is to its own request.
    answered: fn(&[Message], &[u8]) -> Result<(), String>,
}

#[test]
fn what_arrives_is_what_was_sent_and_nothing_else() {
    fuzz(one::TONGUE);
}

#[test]
fn what_arrives_is_what_was_sent_by_http2_and_nothing_else() {
    fuzz(two::TONGUE);
}

fn fuzz(tongue: Tongue) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = number("KEYWARD_FUZZ_SECONDS");
    let time = Duration::from_secs(seconds.unwrap_or(SECONDS));
    // Among the other tests it looks for what broke; what was never seen is for the long runs.
    let other = seconds.map_or(4, |_| u64::from(std::process::id()));
    let seed = number("KEYWARD_FUZZ_SEED").unwrap_or(other);
    let (cases, passed) = thread::scope(|scope| {
        let lines = (0..LINES).map(|line| scope.spawn(move || run(tongue, seed, line, time)));
        let lines: Vec<_> = lines.collect();
        let sum = |(cases, passed), (more, other)| (cases + more, passed + other);
        lines.into_iter().map(|line| line.join().unwrap()).fold((0, 0), sum)
    });
    let protocol = tongue.protocol;
    println!("{protocol}, seed {seed}: {cases} connections, {passed} requests passed");
    assert!(passed > cases / 3, "too little passed to mean anything: {passed} of {cases}");
}

/// Connection after connection to a proxy of its own. How many, and how many requests arrived.
fn run(tongue: Tongue, seed: u64, line: u64, time: Duration) -> (u64, u64) {
    let upstream = Upstream::start();
    let stage = Stage::new();
    stage.write("config", &upstream.kubeconfig);
    let mut proxy = stage.proxy(&[]);
    // It tells of every refusal, and would wait for a reader.
    let stderr = proxy.stderr.get_ref().as_fd().try_clone_to_owned().unwrap();
    let listening = thread::spawn(move || std::io::read_to_string(File::from(stderr)).unwrap());
    let card = Card::read(&proxy.kubeconfig, 0);
    let mut settings = card.settings(true);
    Arc::make_mut(&mut settings).alpn_protocols = vec![tongue.protocol.into()];
    let mut chance = Chance::new(seed.wrapping_mul(LINES).wrapping_add(line));
    let begin = Instant::now();
    let (mut cases, mut passed) = (0_u64, 0_u64);
    // What was sent and has not arrived: a request may still be on its way when its client is gone.
    let mut open = VecDeque::new();
    let mut before = Vec::new();
    while begin.elapsed() < time {
        cases += 1;
        let sent = (tongue.script)(&mut chance, &card.address.to_string(), cases);
        let requests = (tongue.read)(&sent);
        open.extend(requests.iter().cloned());
        while open.len() > 1000 {
            open.pop_front();
        }
        let mut stream = card.connect(settings.clone(), &card.server_name);
        let answers = (tongue.talk)(&mut stream, &sent, &mut chance);
        let mut arrived = upstream.take();
        if cases % PROOF == 0 {
            prove(&card, cases);
            arrived.extend(upstream.take());
            arrived.retain(|message| message.target != "/proof");
        }
        passed += arrived.len() as u64;
        let wrong =
            compare(&mut open, &arrived).and_then(|()| (tongue.answered)(&requests, &answers));
        let broken = upstream.broken().into_iter().next();
        let broken =
            broken.map_or(Ok(()), |bytes| Err(format!("no HTTP: {}", bytes.escape_ascii())));
        if let Err(wrong) = wrong.and(broken) {
            let (sent, before) = (sent.escape_ascii(), before.escape_ascii());
            let report = format!("{wrong}\nbefore:\n{before}\nsent:\n{sent}\n{arrived:?}");
            // A long value need not be shown to its end.
            let report = report.replace(&"a".repeat(1000), "");
            panic!("seed {seed}, line {line}, case {cases}: {report}");
        }
        before = sent;
    }
    prove(&card, cases);
    assert!(proxy.child.try_wait().unwrap().is_none(), "the proxy ended");
    let (status, rest) = proxy.end();
    let said = listening.join().unwrap() + &rest;
    assert!(status.success() && !said.contains("panicked"), "{said}");
    (cases, passed)
}

/// Whatever there was before, a good request is answered.
fn prove(card: &Card, cases: u64) {
    let answer = card.get("/proof", &format!("X-Case: {cases}-proof\r\n"));
    assert!(answer.ends_with(&format!("{cases}-proofok\n")), "after {cases}: {answer}");
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
        if let Some(field) = message.headers.iter().find(|field| !is_known(&original, field)) {
            return Err(format!("{field:?} was not sent: {message:?}"));
        }
        if names_another(&original) || !message.trailers.is_empty() {
            return Err(format!("was let through: {original:?}"));
        }
    }
    Ok(())
}

fn is_same(original: &Message, message: &Message) -> bool {
    message.method == original.method
        && message.target == original.path()
        && message.body == original.body
        && message.values(MARK).eq(original.values(MARK))
        && message.values("x-plain").eq(original.values("x-plain"))
}

/// A header that the client sent, or one that is the proxy's to set.
fn is_known(original: &Message, field: &(String, String)) -> bool {
    ["host", "authorization", "content-length", "transfer-encoding", "connection", "upgrade"]
        .contains(&&field.0[..])
        || original.headers.contains(field)
}

/// Whether it is for a host that is none of ours.
fn names_another(original: &Message) -> bool {
    let hosts = original.values("host").chain(original.values(":authority"));
    hosts
        .chain([&original.target[..]])
        .any(|name| name.strip_prefix("https://").unwrap_or(name).starts_with("evil.example"))
}
