//! An image's name, split as a URL without scheme.

use std::borrow::Cow;

use keyward_protocol::Url;

/// An image's name, split as a URL without scheme.
#[derive(Debug, Clone)]
pub struct Name<'a> {
    pub(super) host: Cow<'a, [u8]>,
    pub(super) port: Cow<'a, [u8]>,
    pub(super) path: Cow<'a, [u8]>,
}

impl<'a> Name<'a> {
    /// Parses a name; `None` for one that nothing can match. Ordinary names cost no allocation.
    #[inline]
    pub fn parse(text: &'a str) -> Option<Self> {
        let Some([host, port, path]) = plain(text.as_bytes()) else { return Self::any(text) };
        Some(Self { host: host.into(), port: port.into(), path: path.into() })
    }

    #[cold]
    fn any(text: &str) -> Option<Self> {
        let url = Url::parse(&format!("https://{text}")).ok()?;
        let (host, port) = split_port(url.authority());
        Some(Self {
            host: host.to_vec().into(),
            port: port.to_vec().into(),
            path: url.decoded_path().into(),
        })
    }
}

/// Host, port and path of a name of ordinary characters, which needs no URL parser.
#[inline]
fn plain(text: &[u8]) -> Option<[&[u8]; 3]> {
    let (host, rest) = text.split_at(run(text, HOST, is_host));
    let (port, path) = match rest {
        [b':', rest @ ..] => rest.split_at(run(rest, DIGIT, is_digit)),
        _ => (&[][..], rest),
    };
    let fits = matches!(path, [] | [b'/', ..]) && run(path, PATH, is_path) == path.len();
    fits.then_some([host, port, path])
}

/// How many bytes at the start of `text` fit: many at once where that goes well, the others by `class`.
#[inline]
fn run(text: &[u8], class: u8, fits: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(block) = text[at..].first_chunk::<16>() {
        // Without an early exit the compiler looks at the whole block in one step.
        if !block.iter().fold(true, |ok, byte| ok & fits(*byte)) {
            break;
        }
        at += block.len();
    }
    while at < text.len() && CLASSES[usize::from(text[at])] & class != 0 {
        at += 1;
    }
    at
}

const HOST: u8 = 1;
const DIGIT: u8 = 2;
const PATH: u8 = 4;

/// What every byte fits.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        let class = &mut classes[byte as usize];
        *class |= if is_host(byte) { HOST } else { 0 };
        *class |= if is_digit(byte) { DIGIT } else { 0 };
        *class |= if is_path(byte) { PATH } else { 0 };
        byte += 1;
    }
    classes
};

#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
const fn is_host(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    letter | is_digit(byte) | (byte == b'.') | (byte == b'-') | (byte == b'_')
}

const fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

/// A byte that stands for itself in the path of a URL.
#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
const fn is_path(byte: u8) -> bool {
    (byte > b' ') & (byte < 0x7f) & (byte != b'%') & (byte != b'?') & (byte != b'#')
}

/// Host and port of an authority, as Go's `net.SplitHostPort` sees them; where that fails, all of
/// it is the host.
pub(super) fn split_port(authority: &[u8]) -> (&[u8], &[u8]) {
    let whole = (authority, &[][..]);
    let Some(colon) = authority.iter().rposition(|b| *b == b':') else { return whole };
    let (host, port) = (&authority[..colon], &authority[colon + 1..]);
    let host = match host.strip_prefix(b"[") {
        Some(inner) => match inner.strip_suffix(b"]") {
            Some(inner) if !inner.contains(&b']') => inner,
            _ => return whole,
        },
        None if host.contains(&b':') => return whole,
        None => host,
    };
    let stray = |text: &[u8]| text.iter().any(|b| matches!(b, b'[' | b']'));
    if stray(host) || stray(port) { whole } else { (host, port) }
}
