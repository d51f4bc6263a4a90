//! Commands, files, ports and logs of pods through the proxy, over WebSocket and SPDY, with the real
//! kubectl as the judge.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use futures_util::{SinkExt, StreamExt};
use keyward_testing::pty::Pty;
use tokio_tungstenite::tungstenite::{Message, protocol::Role};

use crate::{
    stage::{Proxy, Running, Stage, minor, pod},
    wire::Card,
};

/// The ways to go, by whether WebSocket is used: both with a kubectl of today, SPDY alone with one
/// that knows nothing else.
fn ways() -> &'static [&'static str] {
    if minor() >= 30 { &["true", "false"] } else { &["false"] }
}

fn command(proxy: &Proxy, websockets: &str, args: &[&str]) -> Command {
    let mut command = proxy.kubectl(args);
    command
        .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command
}

fn began() -> (Stage, Proxy) {
    let stage = Stage::new();
    stage.server.store().put(&pod("a")).unwrap();
    let proxy = stage.proxy(&[]);
    (stage, proxy)
}

/// The protocol the last upgrade of this kind asked the server for.
fn upgrade(stage: &Stage, part: &str) -> String {
    let records = stage.server.recorder().of(&format!("/api/v1/namespaces/default/pods/a/{part}"));
    records.last().unwrap().header("upgrade").unwrap().to_lowercase()
}

fn expected(websockets: &str) -> &'static str {
    if websockets == "true" { "websocket" } else { "spdy/3.1" }
}

#[test]
fn a_commands_output_input_and_exit_code_pass_through() {
    for way in ways().iter().copied() {
        let (stage, proxy) = began();
        let script = "sort; echo err >&2; exit 7";
        let mut child = command(&proxy, way, &["exec", "-i", "a", "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The end of the input has to arrive too, or `sort` waits forever.
        child.stdin.take().unwrap().write_all(b"b\nc\na\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(output.stdout, b"a\nb\nc\n");
        assert!(output.stderr.starts_with(b"err\n"), "{output:?}");
        assert_eq!(upgrade(&stage, "exec"), expected(way));
    }
}

#[test]
fn a_terminal_passes_through() {
    for way in ways().iter().copied() {
        let (_stage, proxy) = began();
        let mut terminal =
            Pty::spawn(&command(&proxy, way, &["exec", "-it", "a", "--", "sh"])).unwrap();
        terminal.type_in("test -t 0 && echo on-a-\"terminal\"\n").unwrap();
        terminal.wait_for("on-a-terminal");
        terminal.type_in("exit 3\n").unwrap();
        assert_eq!(terminal.finish().code(), Some(3), "{way}");
    }
}

#[test]
fn somebody_attaches_to_what_runs_and_types() {
    for way in ways().iter().copied() {
        let (stage, proxy) = began();
        let mut attached = Running(
            command(&proxy, way, &["attach", "-i", "a"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut lines = attached.lines();
        attached.0.stdin.as_mut().unwrap().write_all(b"typed\n").unwrap();
        assert_eq!(lines.next().unwrap(), "typed", "what runs there repeats it");
        stage.server.logs().write("default", "a", "said by the pod");
        assert_eq!(lines.next().unwrap(), "said by the pod");
        stage.server.logs().end("default", "a");
        assert_eq!(lines.next(), None);
        assert!(attached.0.wait().unwrap().success());
        assert_eq!(upgrade(&stage, "attach"), expected(way));
    }
}

#[test]
fn fifty_megabytes_are_copied_there_and_back() {
    for way in ways().iter().copied() {
        let (stage, proxy) = began();
        let there = tempfile::tempdir().unwrap();
        let data: Vec<u8> =
            (0..50_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(stage.path("data"), &data).unwrap();
        let file = |name: &str| stage.path(name).to_str().unwrap().to_owned();
        let remote = format!("a:{}/data", there.path().display());
        let sent = command(&proxy, way, &["cp", &file("data"), &remote]).output().unwrap();
        assert!(sent.status.success(), "{sent:?}");
        assert!(fs::read(there.path().join("data")).unwrap() == data, "{way}: sent file differs");
        let back = command(&proxy, way, &["cp", &remote, &file("back")]).output().unwrap();
        assert!(back.status.success(), "{back:?}");
        assert!(fs::read(file("back")).unwrap() == data, "{way}: fetched file differs");
    }
}

/// Sends back what it gets, on every connection, until the process ends.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut stream, &mut back);
                let _ = back.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    address
}

#[test]
fn a_forwarded_port_carries_a_hundred_megabytes() {
    const SIZE: usize = 100_000_000;
    for way in ways().iter().copied() {
        let (stage, proxy) = began();
        stage.server.ports().map(8080, echo());
        let mut forward = Running(
            command(&proxy, way, &["port-forward", "pod/a", ":8080"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut line = String::new();
        BufReader::new(forward.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.split(':').nth(1).and_then(|rest| rest.split(' ').next());
        let port: u16 = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let sending = thread::spawn(move || {
            let piece = vec![b'x'; 1_000_000];
            for _ in 0..SIZE / piece.len() {
                writer.write_all(&piece).unwrap();
            }
        });
        let mut reader = stream.take(SIZE as u64);
        let mut piece = vec![0; 1 << 16];
        let mut seen = 0;
        while seen < SIZE {
            let size = reader.read(&mut piece).unwrap();
            assert!(size > 0 && piece[..size].iter().all(|byte| *byte == b'x'), "{way} at {seen}");
            seen += size;
        }
        sending.join().unwrap();
        assert_eq!(upgrade(&stage, "portforward"), expected(way));
    }
}

#[test]
fn logs_are_followed_to_their_end() {
    let (stage, proxy) = began();
    stage.server.logs().write("default", "a", "one");
    let mut follow = proxy.start(&["logs", "-f", "a"]);
    let mut lines = follow.lines();
    assert_eq!(lines.next().unwrap(), "one");
    stage.server.logs().write("default", "a", "two");
    assert_eq!(lines.next().unwrap(), "two");
    stage.server.logs().end("default", "a");
    assert_eq!(lines.next(), None);
    assert!(follow.0.wait().unwrap().success());
}

/// Whatever kubectl is installed: a WebSocket client of our own.
#[tokio::test]
async fn a_websocket_passes_through_with_its_half_close() {
    let (_stage, proxy) = began();
    let card = Card::read(&proxy.kubeconfig, 0);
    let stream = tokio::net::TcpStream::connect(card.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(card.settings(true));
    let name = card.server_name.clone().try_into().unwrap();
    let stream = connector.connect(name, stream).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let path = "/api/v1/namespaces/default/pods/a/exec?command=sort&stdin=true&stdout=true";
    let request = http::Request::get(path)
        .header("host", card.address.to_string())
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "WebSocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-protocol", "v5.channel.k8s.io")
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let mut answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let io = hyper_util::rt::TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    let socket = tokio_tungstenite::WebSocketStream::from_raw_socket(io, Role::Client, None);
    let mut socket = socket.await;
    socket.send(Message::Binary(b"\0b\na\n".to_vec().into())).await.unwrap();
    // Version five: channel 0 is closed, and `sort` begins to write.
    socket.send(Message::Binary(vec![255, 0].into())).await.unwrap();
    let mut seen: Vec<u8> = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Binary(bytes) if bytes.first() == Some(&1) => seen.extend(&bytes[1..]),
            Message::Close(_) => break,
            _ => {}
        }
    }
    assert_eq!(seen, b"a\nb\n");
}
