//! Requests of HTTP/2 that a library would not send: what cannot be said in HTTP/1.1 without a doubt
//! does not reach a server that speaks it.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use crate::{
    fuzz::{
        Wire,
        frame::{self, Frame},
    },
    stage::{Proxy, Stage},
    upstream::Upstream,
    wire::Card,
};

struct Line {
    upstream: Upstream,
    card: Card,
    stream: Wire,
    unread: Vec<u8>,
    next: u32,
    _proxy: Proxy,
    _stage: Stage,
}

impl Line {
    fn new() -> Self {
        let upstream = Upstream::start();
        let stage = Stage::new();
        stage.write("config", &upstream.kubeconfig);
        let proxy = stage.proxy(&[]);
        let card = Card::read(&proxy.kubeconfig, 0);
        let mut settings = card.settings(true);
        Arc::make_mut(&mut settings).alpn_protocols = vec![b"h2".to_vec()];
        let mut stream = card.connect(settings, &card.server_name);
        stream.write_all(frame::PREFACE).unwrap();
        let mut line = Self {
            upstream,
            card,
            stream,
            unread: Vec::new(),
            next: 1,
            _proxy: proxy,
            _stage: stage,
        };
        line.say(frame::SETTINGS, 0, 0, b"");
        line
    }

    fn say(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = Vec::new();
        Frame::new(kind, flags, stream, payload).write(&mut out);
        self.stream.write_all(&out).unwrap();
    }

    /// Begins a request with this path and these headers; its stream.
    fn begin(&mut self, method: &str, path: &str, headers: &[(&str, &str)], end: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        let host = self.card.address.to_string();
        let pseudo =
            [(":method", method), (":scheme", "https"), (":authority", &host), (":path", path)];
        let mut block = Vec::new();
        for (name, value) in pseudo.iter().chain(headers) {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.say(frame::HEADERS, frame::END_HEADERS | u8::from(end), stream, &block);
        stream
    }

    /// Reads until the stream is at its end; the body of its answer, or `None` for a reset.
    fn answer(&mut self, stream: u32) -> Option<String> {
        let mut body = Vec::new();
        loop {
            while let Some((frame, rest)) = Frame::read(&self.unread) {
                self.unread = rest.to_vec();
                assert_ne!(frame.kind, frame::GO_AWAY, "the connection ended");
                if frame.stream != stream {
                    continue;
                }
                match frame.kind {
                    frame::RESET => return None,
                    frame::DATA => body.extend_from_slice(frame.content().unwrap()),
                    _ => {}
                }
                if matches!(frame.kind, frame::DATA | frame::HEADERS)
                    && frame.has(frame::END_STREAM)
                {
                    return Some(String::from_utf8(body).unwrap());
                }
            }
            let mut piece = [0; 4096];
            let size = self.stream.read(&mut piece).unwrap();
            assert_ne!(size, 0, "the connection ended");
            self.unread.extend_from_slice(&piece[..size]);
        }
    }

    /// A good request is answered, and nothing else has arrived.
    fn goes_on(&mut self, after: &str) {
        let stream = self.begin("GET", "/next", &[], true);
        assert_eq!(self.answer(stream).as_deref(), Some("ok\n"), "{after}");
        let arrived = self.upstream.take();
        let arrived: Vec<_> = arrived.iter().map(|message| &message.target[..]).collect();
        assert_eq!(arrived, ["/next"], "{after}");
        assert!(self.upstream.broken().is_empty(), "{after}: {:?}", self.upstream.broken());
    }
}

#[test]
fn a_path_that_would_be_none_in_a_line_is_refused() {
    let mut line = Line::new();
    for (method, path) in [("GET", "#x"), ("GET", "?x=1"), ("GET", "evil"), ("DELETE", "*")] {
        let stream = line.begin(method, path, &[], true);
        // Refused by us, or taken for no request at all.
        let answer = line.answer(stream);
        assert!(answer.is_none_or(|text| text.contains("does not begin with")), "{path}");
        line.goes_on(path);
    }
}

#[test]
fn a_length_that_is_none_or_not_true_is_refused() {
    let mut line = Line::new();
    for lengths in [&[""][..], &["+5"], &["5, 5"], &["5", "5"], &["5", "6"], &["5"]] {
        let headers: Vec<_> = lengths.iter().map(|length| ("content-length", *length)).collect();
        // No body comes: whoever believes the length takes the next request for it.
        let stream = line.begin("POST", "/first", &headers, true);
        let answer = line.answer(stream);
        assert!(answer.is_none_or(|text| text.contains("\"Failure\"")), "{lengths:?}");
        line.goes_on(&format!("{lengths:?}"));
    }
}

#[test]
fn a_name_that_no_header_may_have_is_refused() {
    let mut line = Line::new();
    // For others h2 ends the connection.
    for name in ["\"", "\"x", "x\"y"] {
        let stream = line.begin("GET", "/first", &[(name, "1")], true);
        let answer = line.answer(stream);
        assert!(answer.is_none_or(|text| text.contains("quotation mark")), "{name:?}");
        line.goes_on(name);
    }
}

/// hyper takes the reset for the end of the body.
#[test]
fn a_body_that_its_client_takes_back_is_not_passed_on_as_a_whole_one() {
    let mut line = Line::new();
    for round in 0..10 {
        let stream = line.begin("POST", "/half", &[], false);
        line.say(frame::DATA, 0, stream, b"half of ");
        // Answered behind it: the proxy is at work on both by then.
        let other = line.begin("GET", "/other", &[], true);
        assert_eq!(line.answer(other).as_deref(), Some("ok\n"));
        line.upstream.take();
        line.say(frame::RESET, 0, stream, &0_u32.to_be_bytes());
        line.goes_on(&format!("round {round}"));
    }
}
