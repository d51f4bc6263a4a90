//! A change of the protocol: only where both sides say so, and each direction with an end of its own.

use std::{
    io::{Read, Write},
    net::Shutdown,
};

use serde_json::json;

use crate::{
    stage::{Proxy, Stage},
    upstream::{self, Stream},
    wire::Card,
};

/// A proxy before a server that does this with each connection once it has read a request's head.
fn before(talk: impl Fn(Stream, String) + Send + Sync + 'static) -> (Stage, Proxy, Card) {
    let stage = Stage::new();
    let config = upstream::serve(&json!({ "token": "good" }), move |mut stream| {
        let Some(head) = head(&mut stream) else { return };
        talk(stream, head);
    });
    stage.write("config", &config);
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    (stage, proxy, card)
}

/// Up to the empty line and no byte further.
fn head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

/// Says that the protocol changes to this, and no more.
fn change(protocol: &'static str) -> (Stage, Proxy, Card) {
    before(move |mut stream, _| {
        let _ = write!(
            stream,
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        );
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

#[test]
fn an_upgrade_needs_the_connections_word() {
    let (_stage, _proxy, card) = change("websocket");
    let answer = card.get("/", "Upgrade: websocket\r\n");
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("Connection: Upgrade"),
        "{answer}"
    );
}

#[test]
fn a_change_that_nobody_asked_for_is_a_bad_answer() {
    let (_stage, proxy, card) = change("websocket");
    let unasked = "a protocol that was not requested";
    let answer = card.get("/", "");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(unasked), "{answer}");
    // Over HTTP/2 there is no such change at all.
    let output = proxy.run(&["get", "--raw", "/"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(unasked), "{said}");
    let answer = card.get("/", "Upgrade: SPDY/3.1\r\nConnection: Upgrade\r\n");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(unasked), "{answer}");
}

#[test]
fn one_who_has_said_everything_still_hears_the_other() {
    // Answers only when it has heard that nothing more comes.
    let (_stage, _proxy, card) = before(|mut stream, _| {
        let switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\n\r\n";
        stream.write_all(switched).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        for _ in 0..100 {
            stream.write_all(&heard).unwrap();
        }
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        stream.sock.shutdown(Shutdown::Write).unwrap();
        let _ = stream.sock.read(&mut [0]);
    });
    let mut stream = card.connect(card.settings(true), &card.server_name);
    let host = card.address;
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let answer = head(&mut stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    let said = "all that I have to say\n".repeat(10_000);
    stream.write_all(said.as_bytes()).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert!(heard == said.repeat(100), "{} bytes came back", heard.len());
}
