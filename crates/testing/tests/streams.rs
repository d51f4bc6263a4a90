//! Commands and ports of pods, with the real kubectl as the judge, over WebSocket and SPDY.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use common::kubectl::{Kubectl, Running, minor, pod, with_certificate, with_token};
use keyward_testing::{pty::Pty, server::Server};

/// The ways to go, by whether WebSocket is used: both with a kubectl of today, SPDY alone with one
/// that knows nothing else.
fn ways() -> &'static [&'static str] {
    if minor() >= 30 { &["true", "false"] } else { &["false"] }
}

/// A command that goes this way.
fn command(kubectl: &Kubectl, websockets: &str, args: &[&str]) -> Command {
    let mut command = kubectl.command(args);
    command
        .env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
        .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command
}

fn began(websockets: &str) -> (Server, Kubectl) {
    let (server, kubectl) = if websockets == "true" { with_token() } else { with_certificate() };
    server.store().put(&pod("a")).unwrap();
    (server, kubectl)
}

/// The protocol the last upgrade of this kind asked for.
fn upgrade(server: &Server, part: &str) -> String {
    let records = server.recorder().of(&format!("/api/v1/namespaces/default/pods/a/{part}"));
    records.last().unwrap().header("upgrade").unwrap().to_lowercase()
}

fn expected(websockets: &str) -> &'static str {
    if websockets == "true" { "websocket" } else { "spdy/3.1" }
}

#[test]
fn a_command_runs_and_its_output_and_exit_code_come_back() {
    for way in ways().iter().copied() {
        let (server, kubectl) = began(way);
        let script = "echo out; echo err >&2; exit 7";
        let args = ["exec", "a", "--", "sh", "-c", script];
        let output = command(&kubectl, way, &args).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(output.stdout, b"out\n");
        assert!(output.stderr.starts_with(b"err\n"), "{output:?}");
        assert_eq!(upgrade(&server, "exec"), expected(way));
        let args = ["exec", "a", "--", "/no/such/program"];
        let output = command(&kubectl, way, &args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

#[test]
fn input_reaches_a_command_and_its_end_too() {
    for way in ways().iter().copied() {
        let (_server, kubectl) = began(way);
        let mut child = command(&kubectl, way, &["exec", "-i", "a", "--", "sort"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"b\nc\na\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{way}");
        assert_eq!(output.stdout, b"a\nb\nc\n");
    }
}

#[test]
fn a_command_on_a_terminal_sees_the_terminal_and_its_size() {
    for way in ways().iter().copied() {
        let (_server, kubectl) = began(way);
        let inner = command(&kubectl, way, &["exec", "-it", "a", "--", "sh"]);
        let mut outer = Command::new("sh");
        outer.args(["-c", "stty rows 33 cols 77; exec kubectl \"$@\"", "sh"]);
        outer.args(inner.get_args());
        for (name, value) in inner.get_envs().filter_map(|(name, value)| Some((name, value?))) {
            outer.env(name, value);
        }
        let mut terminal = Pty::spawn(&outer).unwrap();
        let script = "until [ \"$(stty size)\" = '33 77' ]; do :; done; echo the-\"size\"\n";
        terminal.type_in(script).unwrap();
        terminal.wait_for("the-size");
        terminal.type_in("exit 3\n").unwrap();
        assert_eq!(terminal.finish().code(), Some(3), "{way}");
    }
}

#[test]
fn a_large_file_is_copied_there_and_back() {
    for way in ways().iter().copied() {
        let (_server, kubectl) = began(way);
        let there = tempfile::tempdir().unwrap();
        let file = |name: &str| kubectl.home().join(name).to_str().unwrap().to_owned();
        let data: Vec<u8> =
            (0..50_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(file("data"), &data).unwrap();
        let remote = format!("a:{}/data", there.path().display());
        let sent = command(&kubectl, way, &["cp", &file("data"), &remote]).output().unwrap();
        assert!(sent.status.success(), "{sent:?}");
        assert!(fs::read(there.path().join("data")).unwrap() == data, "{way}: sent file differs");
        let back = command(&kubectl, way, &["cp", &remote, &file("back")]).output().unwrap();
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

/// The port that `kubectl port-forward` says it listens on.
fn local_port(running: &mut Running) -> u16 {
    let mut line = String::new();
    BufReader::new(running.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.split(':').nth(1).and_then(|rest| rest.split(' ').next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"))
}

#[test]
fn a_port_carries_much_data_on_many_connections() {
    const SIZE: usize = 100_000_000;
    for way in ways().iter().copied() {
        let (server, kubectl) = began(way);
        server.ports().map(8080, echo());
        let mut forward = Running(
            command(&kubectl, way, &["port-forward", "pod/a", ":8080"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let port = local_port(&mut forward);
        for _ in 0..3 {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"hello", "{way}");
        }
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
        assert_eq!(upgrade(&server, "portforward"), expected(way));
    }
}

#[test]
fn attaching_shows_what_the_pod_writes_and_hands_it_what_is_typed() {
    for way in ways().iter().copied() {
        let (server, kubectl) = began(way);
        server.logs().write("default", "a", "before");
        let child = command(&kubectl, way, &["attach", "-i", "a"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut attached = Running(child.unwrap());
        attached.0.stdin.as_mut().unwrap().write_all(b"typed\n").unwrap();
        let mut lines = attached.lines();
        assert_eq!(lines.next().unwrap(), "typed", "{way}");
        server.logs().write("default", "a", "after");
        assert_eq!(lines.next().unwrap(), "after", "{way}");
        server.logs().end("default", "a");
        assert_eq!(lines.next(), None);
    }
}

#[test]
fn commands_are_refused_where_the_server_was_not_set_up_for_them() {
    let server = Server::setup().start().unwrap();
    server.users().token("good", keyward_testing::server::User::new("anna"));
    server.store().put(&pod("a")).unwrap();
    let kubectl = Kubectl::new(&server, &serde_json::json!({ "token": "good" }));
    let output = kubectl.run(&["exec", "a", "--", "true"]);
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("not set up to run commands"), "{message}");
}
