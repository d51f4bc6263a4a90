//! Requests of HTTP/2, by the rules and not.

use super::{Chance, hpack::Field};
use crate::upstream::MARK;

/// What is still to be sent of a request.
pub(super) enum Part {
    Fields(Vec<Field>, u8),
    Data(Vec<u8>, u8),
    Reset(u32),
}

/// A request by the rules.
pub(super) fn plain(host: &str, method: &str, path: &str, mark: &str) -> Vec<Field> {
    [(":method", method), (":scheme", "https"), (":authority", host), (":path", path), (MARK, mark)]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec()
}

/// A request, by the rules or not, in its parts.
pub(super) fn request(chance: &mut Chance, host: &str, mark: &str) -> Vec<Part> {
    let method = *chance.pick(&["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "get"]);
    let mut fields = plain(host, method, "/api/v1/pods?limit=5", mark);
    let hidden = format!("GET /smuggled HTTP/1.1\r\nHost: {host}\r\nX-Case: {mark}x\r\n\r\n");
    let mut data: Vec<Vec<u8>> = match chance.below(6) {
        0 => vec![hidden.clone().into_bytes()],
        1 => vec![b"0\r\n\r\n".to_vec(), hidden.clone().into_bytes()],
        2 => vec![b"hello ".to_vec(), Vec::new(), b"world".to_vec()],
        _ => Vec::new(),
    };
    let size = data.iter().map(Vec::len).sum::<usize>();
    if !data.is_empty() && chance.one_in(2) {
        let said = match chance.below(8) {
            0 => size + 1,
            1 => size.saturating_sub(1),
            2 => data[0].len(),
            3 => 0,
            _ => size,
        };
        fields.push(("content-length".into(), said.to_string().into()));
    }
    if chance.one_in(2) {
        for _ in 0..=chance.below(2) {
            odd(chance, &mut fields, host, &hidden);
        }
    }
    let mut parts = Vec::new();
    let trailers: Option<Vec<Field>> = chance.one_in(12).then(|| {
        let name = *chance.pick(&["x-sum", "authorization", MARK, ":path", "content-length"]);
        vec![(name.into(), b"5".to_vec())]
    });
    // Some end with an empty frame, some never, and some are taken back.
    let ending = chance.below(16);
    let bare = data.is_empty() && trailers.is_none() && ending > 3;
    parts.push(Part::Fields(fields, u8::from(bare)));
    if bare {
        return parts;
    }
    if ending == 3 {
        data.push(Vec::new());
    }
    let count = data.len();
    for (place, piece) in data.into_iter().enumerate() {
        let last = place + 1 == count && trailers.is_none() && ending > 2;
        parts.push(Part::Data(piece, u8::from(last)));
    }
    match ending {
        1 => parts.push(Part::Reset(*chance.pick(&[0, 8, 8, 1, 2]))),
        2 if trailers.is_none() => parts.push(Part::Data(Vec::new(), 1)),
        _ => {}
    }
    if let Some(fields) = trailers {
        parts.push(Part::Fields(fields, u8::from(!chance.one_in(4))));
    }
    parts
}

/// Something that is not done.
fn odd(chance: &mut Chance, fields: &mut Vec<Field>, host: &str, hidden: &str) {
    let injected = format!("a\r\n\r\n{hidden}");
    let folded = format!("/a HTTP/1.1\r\nHost: {host}\r\n\r\n{hidden}");
    let (place, name, value): (usize, &str, &str) = match chance.below(46) {
        // In the place of a pseudo-header.
        0 => (0, ":method", "CONNECT"),
        1 => (0, ":method", "GET / HTTP/1.1\r\nX: "),
        2 => (0, ":method", ""),
        3 => (0, ":status", "200"),
        4 => (1, ":scheme", "http"),
        5 => (1, ":scheme", "https://evil.example/"),
        6 => (1, ":scheme", ""),
        7 => (1, ":protocol", "websocket"),
        8 => (2, ":authority", "evil.example"),
        9 => (2, ":authority", ""),
        10 => (2, ":authority", "a b\r\nX-Plain: 1"),
        11 => (2, "host", host),
        12 => (3, ":path", ""),
        13 => (3, ":path", "*"),
        14 => (3, ":path", "https://evil.example/x"),
        15 => (3, ":path", "//evil.example/x"),
        16 => (3, ":path", "/a/../b/./c"),
        17 => (3, ":path", "/a%2e%2e/%00?x=%0d%0aHost:%20evil"),
        18 => (3, ":path", "/a b"),
        19 => (3, ":path", "/a#b"),
        20 => (3, ":path", "evil"),
        21 => (3, ":path", &folded),
        // Beside the others.
        22 => (9, ":path", "/second"),
        23 => (9, ":authority", "evil.example"),
        24 => (9, "host", "evil.example"),
        25 => (9, "host", host),
        26 => (9, "content-length", "5"),
        27 => (9, "content-length", "+5"),
        28 => (9, "content-length", "5, 5"),
        29 => (9, "content-length", ""),
        30 => (9, "transfer-encoding", "chunked"),
        31 => (9, "connection", "x-plain"),
        32 => (9, "keep-alive", "timeout=5"),
        33 => (9, "upgrade", "websocket"),
        34 => (9, "te", *chance.pick(&["trailers", "gzip, trailers", "chunked"])),
        35 => (9, "X-Plain", "upper"),
        36 => (9, *chance.pick(&["x plain", "x\"plain", "x:plain", "x-\u{e4}"]), "odd"),
        37 => (9, "x-plain\r\ntransfer-encoding", "chunked"),
        38 => (9, "x-plain", &injected),
        39 => (9, "x-plain", *chance.pick(&[" around ", "\ta", "", "a\0b", "\x7f"])),
        40 => (9, "impersonate-user", "admin"),
        41 => (9, "authorization", "Bearer mine"),
        42 => (9, "origin", "https://evil.example"),
        43 => (9, "expect", "100-continue"),
        44 => (9, "x-plain", "custom-value"),
        _ => {
            fields.push((b"x-plain".to_vec(), vec![b'a'; 20_000]));
            return;
        }
    };
    let field = (name.into(), value.into());
    match fields.get_mut(place).filter(|_| place < 4) {
        Some(old) => *old = field,
        None if chance.one_in(2) => fields.push(field),
        None => fields.insert(usize::try_from(chance.below(4)).unwrap(), field),
    }
}
