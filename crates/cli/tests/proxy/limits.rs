//! What a client, a stranger or a server can take of the proxy.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::BodyExt as _;
use serde_json::json;

use crate::{
    fuzz::frame::{self, Frame},
    reload::ask,
    soak::{Gauge, client},
    stage::{Proxy, Stage, pod},
    upstream::serve,
    wire::Card,
};

const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the proxy is as it should be.
fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn open_requests(proxy: &Proxy) -> u64 {
    let metrics = ask(proxy, "/metrics");
    let name = "keyward_proxy_requests_open{context=\"test\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[test]
fn a_client_that_sends_two_requests_at_once_and_leaves_is_noticed() {
    let stage = Stage::new();
    stage.server.store().put(&pod("a")).unwrap();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let mut stream = card.connect(card.settings(true), &card.server_name);
    let path = "/api/v1/namespaces/default/pods?watch=true";
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", card.address);
    stream.write_all(request.repeat(2).as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    assert_eq!(open_requests(&proxy), 1);
    drop(stream);
    until("the request goes on for nobody", || open_requests(&proxy) == 0);
}

#[test]
fn half_a_head_is_not_waited_for_without_end() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let mut stream = card.connect(card.settings(true), &card.server_name);
    stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest);
    let late = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!late, "the proxy still waits");
    assert!(card.get("/healthz", "").ends_with("ok"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_over_http2_is_ended_when_it_is_idle_and_not_while_a_watch_is_open() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let watching = client(&proxy);
    let path = "/api/v1/namespaces/default/pods?watch=true";
    let mut watch = watching.get(path).await.unwrap().into_body();
    let mut settings = card.settings(true);
    Arc::make_mut(&mut settings).alpn_protocols = vec![b"h2".to_vec()];
    let idle = tokio::task::spawn_blocking(move || {
        let mut stream = card.connect(settings, &card.server_name);
        stream.sock.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(frame::PREFACE).unwrap();
        let mut hello = Vec::new();
        Frame::new(frame::SETTINGS, 0, 0, b"").write(&mut hello);
        stream.write_all(&hello).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        !ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(idle.await.unwrap(), "the proxy keeps a connection that nobody uses");
    stage.server.store().put(&pod("a")).unwrap();
    let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&event).contains("ADDED"), "{event:?}");
}

#[test]
fn a_server_that_sends_interim_responses_without_end_is_given_up() {
    let stage = Stage::new();
    let config = serve(&json!({ "token": "x" }), move |mut stream| {
        let mut piece = [0; 4096];
        let _ = stream.read(&mut piece);
        while stream.write_all(b"HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n").is_ok() {}
    });
    stage.write("config", &config);
    let proxy = stage.proxy(&[]);
    let answer = Card::read(&proxy.kubeconfig, 0).get("/", "");
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(answer.contains("interim responses"), "{answer}");
}

#[test]
fn strangers_do_not_fill_the_log() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    let silent: Vec<TcpStream> =
        (0..600).map(|_| TcpStream::connect(card.address).unwrap()).collect();
    until("they are not shown out", || {
        let metrics = ask(&proxy, "/metrics");
        let name = "keyward_proxy_rejected_connections_total ";
        let count = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        count.parse::<u64>().unwrap() >= 300
    });
    let (_, said) = proxy.end();
    let lines = said.matches("dropped a client").count();
    assert!((1..=60).contains(&lines), "{lines} lines for 600 connections");
    drop(silent);
}

#[test]
fn a_response_that_can_be_read_in_two_ways_is_not_passed_on() {
    for head in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 5, 5\r\n\r\nhello",
        "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let stage = Stage::new();
        let config = serve(&json!({ "token": "x" }), move |mut stream| {
            let mut piece = [0; 4096];
            let _ = stream.read(&mut piece);
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}").as_bytes());
            let _ = stream.read(&mut piece);
        });
        stage.write("config", &config);
        let proxy = stage.proxy(&[]);
        let answer = Card::read(&proxy.kubeconfig, 0).get("/", "");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{head}: {answer}");
        assert!(!answer.contains("hello"), "{answer}");
    }
}

/// Idle connections, half-sent heads and unread streams; `KEYWARD_LIMITS=full` has ten times as many.
fn burst() -> [usize; 3] {
    let full = std::env::var_os("KEYWARD_LIMITS").is_some_and(|value| value == "full");
    if full { [2000, 1000, 400] } else { [200, 100, 40] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_a_client_keeps_nobody_out_and_is_bounded() {
    let stage = Stage::new();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "large" },
        "data": { "key": "x".repeat(2 << 20) },
    });
    stage.server.store().put(&object).unwrap();
    let proxy = stage.proxy(&[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", proxy.child.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = files.split_ascii_whitespace().skip(3).map(str::parse::<u64>);
    let (soft, hard) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(soft.unwrap() >= hard.unwrap_or(u64::MAX).min(65_536), "{files}");

    let card = Card::read(&proxy.kubeconfig, 0);
    let settings = card.settings(true);
    for _ in 0..20 {
        assert!(card.get("/healthz", "").ends_with("ok"));
    }
    let before = Gauge::read(&proxy);
    let [idle, halves, unread] = burst();
    let mut connections = Vec::new();
    for number in 0..idle + halves {
        let mut stream = card.connect(settings.clone(), &card.server_name);
        if number < idle {
            // Nothing but the handshake.
            stream.conn.complete_io(&mut stream.sock).unwrap();
        } else {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
            stream.flush().unwrap();
        }
        connections.push(stream);
    }
    let asking = client(&proxy);
    let mut streams = Vec::new();
    for _ in 0..unread {
        let path = "/api/v1/namespaces/default/configmaps/large";
        streams.push(asking.get(path).await.unwrap());
    }
    assert!(card.get("/healthz", "").ends_with("ok"), "others are served");
    let during = Gauge::read(&proxy);
    drop((connections, streams, asking));
    let mut after = Gauge::read(&proxy);
    until("the descriptors are not given back", || {
        after = Gauge::read(&proxy);
        after.descriptors <= before.descriptors + 8
    });
    let most = (idle + halves) * 100 + unread * 1400;
    assert!(during.kilobytes <= before.kilobytes + most, "{before:?} {during:?}");
    // What is promised within a minute.
    until("the memory is not given back", || {
        Gauge::read(&proxy).kilobytes <= before.kilobytes + 10 * 1024
    });
}
