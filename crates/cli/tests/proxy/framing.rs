//! Where a request ends: forms that one reader takes for a whole request and another does not. Each
//! is followed by two plain requests on the same connection; what arrives at the server tells whether
//! the proxy took them for what they are, or ended the connection.

use crate::{stage::Stage, upstream::Upstream, wire::Card};

/// A server that knows no mercy and a proxy before it.
struct Line {
    upstream: Upstream,
    card: Card,
    _proxy: crate::stage::Proxy,
    _stage: Stage,
}

/// The codes of the answers, and what arrived: method, path and body.
type Seen = (Vec<u16>, Vec<String>);

impl Line {
    fn new(args: &[&str]) -> Self {
        let upstream = Upstream::start();
        let stage = Stage::new();
        stage.write("config", &upstream.kubeconfig);
        let proxy = stage.proxy(args);
        let card = Card::read(&proxy.kubeconfig, 0);
        Self { upstream, card, _proxy: proxy, _stage: stage }
    }

    fn say(&self, lines: &str, body: &str) -> Seen {
        let host = format!("Host: {}\r\n", self.card.address);
        let text = format!(
            "POST /first HTTP/1.1\r\n{host}{lines}\r\n{body}\
             GET /next HTTP/1.1\r\n{host}\r\n\
             GET /last HTTP/1.1\r\n{host}Connection: close\r\n\r\n"
        );
        let answer = self.card.say(&text).unwrap();
        let codes = answer.split("HTTP/1.1 ").skip(1).map(|rest| rest[..3].parse().unwrap());
        let arrived = self.upstream.take().into_iter().map(|message| {
            assert_eq!(message.trailers, [], "{lines}{body}");
            let body = String::from_utf8(message.body).unwrap();
            format!("{} {} {body}", message.method, message.target).trim_end().to_owned()
        });
        let seen = (codes.collect(), arrived.collect());
        assert!(self.upstream.broken().is_empty(), "{:?}", self.upstream.broken());
        seen
    }

    /// The request arrives with this content, and those behind it as what they are.
    fn passes(&self, lines: &str, body: &str, content: &str) {
        let (codes, arrived) = self.say(lines, body);
        let first = format!("POST /first {content}").trim_end().to_owned();
        assert_eq!(arrived, [&first[..], "GET /next", "GET /last"], "{lines}{body}");
        assert_eq!(codes, [200, 200, 200], "{lines}{body}");
    }

    /// The request is refused and the connection ended: nothing arrives, of those behind it neither.
    fn refuses(&self, lines: &str, body: &str, code: u16) {
        let (codes, arrived) = self.say(lines, body);
        assert_eq!((codes, arrived), (vec![code], vec![]), "{lines}{body}");
    }
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

#[test]
fn a_chunked_body_arrives_in_chunks_of_our_own() {
    let line = Line::new(&[]);
    line.passes(CHUNKED, "5\r\nhello\r\n0\r\n\r\n", "hello");
    line.passes(CHUNKED, "0\r\n\r\n", "");
    line.passes(CHUNKED, "2\r\nhe\r\n03\r\nllo\r\n000\r\n\r\n", "hello");
    // Extensions are for the next hop only, whatever they look like.
    line.passes(CHUNKED, "5;a=\"\r\nhello\r\n0;b=c \r\n\r\n", "hello");
    line.passes(CHUNKED, "5;\u{e9}=\"\u{7f}\"\r\nhello\r\n0;\0\r\n\r\n", "hello");
    line.passes(CHUNKED, "5 \t\r\nhello\r\n0\r\n\r\n", "hello");
}

#[test]
fn a_last_chunk_that_ends_in_a_line_feed_hides_no_request() {
    let line = Line::new(&[]);
    // hyper looks for trailers up to an empty line: the next request would be lost in them.
    line.refuses(CHUNKED, "5\r\nhello\r\n0\r\n\n", 400);
    line.refuses(CHUNKED, "0\r\n\n", 400);
    line.refuses(CHUNKED, "5\r\nhello\r\n0\r\nX-A: b\n\n", 400);
    line.refuses(CHUNKED, "5\r\nhello\r\n0\n\r\n", 400);
    line.refuses(CHUNKED, "5\r\nhello\r\n0\n\n", 400);
    line.refuses(CHUNKED, "5\nhello\r\n0\r\n\r\n", 400);
    line.refuses(CHUNKED, "5\r\nhello\n0\r\n\r\n", 400);
}

#[test]
fn chunks_that_are_not_by_the_rules_are_refused() {
    let line = Line::new(&[]);
    for body in [
        "5\r\nhello\r\n0\r\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\r\n",
        "5\r\nhello\r\n0\r\n\rX",
        "5;a=\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        line.refuses(CHUNKED, body, 400);
    }
}

#[test]
fn trailers_are_refused_because_nobody_looked_at_them() {
    let line = Line::new(&[]);
    let declared = "Transfer-Encoding: chunked\r\nTrailer: X-A\r\nTE: trailers\r\n";
    line.refuses(declared, "5\r\nhello\r\n0\r\nX-A: b\r\n\r\n", 400);
    line.refuses(CHUNKED, "5\r\nhello\r\n0\r\nImpersonate-User: dora\r\n\r\n", 400);
}

#[test]
fn a_length_beside_chunks_is_dropped_and_the_connection_ends_after_it() {
    let line = Line::new(&[]);
    for lines in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    ] {
        let seen = line.say(lines, "5\r\nhello\r\n0\r\n\r\n");
        assert_eq!(seen, (vec![200], vec!["POST /first hello".to_owned()]), "{lines}");
    }
}

#[test]
fn a_length_that_can_be_read_in_two_ways_is_refused() {
    let line = Line::new(&[]);
    line.passes("Content-Length: 3\r\n", "abc", "abc");
    line.passes("Content-Length: 3\r\nContent-Length: 3\r\n", "abc", "abc");
    line.passes("Content-Length: 003\r\n", "abc", "abc");
    for lines in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 3 3\r\n",
        "Content-Length:\r\n",
        "Content-Length : 3\r\n",
        "Content-Length: 18446744073709551619\r\n",
    ] {
        line.refuses(lines, "abc", 400);
    }
}

#[test]
fn any_other_transfer_coding_is_refused() {
    let line = Line::new(&[]);
    for (lines, code) in [
        ("Transfer-Encoding: chunked, identity\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", 501),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: ,chunked\r\n", 501),
        ("Transfer-Encoding: \x0bchunked\r\n", 400),
    ] {
        // An empty one, too: all of it has been read when it is refused.
        for body in ["5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n"] {
            line.refuses(lines, body, code);
        }
    }
}

#[test]
fn a_folded_header_is_refused() {
    let line = Line::new(&[]);
    line.refuses("X-A: b\r\n Content-Length: 3\r\n", "abc", 400);
    line.refuses("X-A:\r\n\tb\r\n", "", 400);
    line.refuses("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", 400);
    line.refuses("X-A: b\rContent-Length: 3\r\n", "abc", 400);
}

#[test]
fn an_upgrade_with_a_body_is_refused() {
    let line = Line::new(&[]);
    for protocol in ["websocket", "SPDY/3.1"] {
        let upgrade = format!("Connection: Upgrade\r\nUpgrade: {protocol}\r\n");
        line.refuses(&format!("{upgrade}Content-Length: 3\r\n"), "abc", 400);
        line.refuses(&format!("{upgrade}{CHUNKED}"), "0\r\n\r\n", 400);
        line.passes(&format!("{upgrade}Content-Length: 0\r\n"), "", "");
    }
}

#[test]
fn a_refused_request_with_a_body_ends_the_connection() {
    let line = Line::new(&[]);
    line.refuses("Origin: x\r\nContent-Length: 3\r\n", "abc", 403);
    line.refuses("Origin: x\r\nTransfer-Encoding: chunked\r\n", "0\r\n\n", 403);
    // Without one nothing is left to be taken for something else.
    let (codes, arrived) = line.say("Origin: x\r\n", "");
    assert_eq!((codes, arrived.len()), (vec![403, 200, 200], 2));
}

#[test]
fn connection_takes_away_no_header_that_is_the_requests() {
    let line = Line::new(&["--allow-impersonation", "--allow-authorization"]);
    for name in ["Impersonate-User", "authorization", "Host", "x-remote-group", "X-A"] {
        let lines = format!("Impersonate-User: dora\r\nConnection: close, {name}\r\n");
        line.refuses(&lines, "", 400);
    }
    // Nor any other that is not about the connection, in one line or in two.
    line.refuses("Connection: Content-Length\r\nContent-Length: 1\r\n", "a", 400);
    line.refuses("Connection: TE\r\nConnection: X-A\r\nContent-Length: 1\r\n", "a", 400);
    line.passes("TE: trailers\r\nConnection: Keep-Alive, TE\r\n", "", "");
}
