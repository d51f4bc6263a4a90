//! An image's name, split like a URL without a scheme.

use std::borrow::Cow;

use keyward_protocol::Url;
use memchr::memchr2;

/// An image's name, split like a URL without a scheme.
#[derive(Debug, Clone)]
pub struct Name<'a> {
    /// Host, port and path in this order, with separators in between.
    text: Cow<'a, [u8]>,
    host_end: usize,
    port_start: usize,
    path_start: usize,
}

impl<'a> Name<'a> {
    /// Parses a name; `None` if nothing can match it. Ordinary names need no allocation.
    #[inline]
    pub fn parse(text: &'a str) -> Option<Self> {
        let Some([host_end, port_start, path_start]) = plain(text.as_bytes()) else {
            return Self::any(text);
        };
        Some(Self { text: text.as_bytes().into(), host_end, port_start, path_start })
    }

    #[cold]
    fn any(text: &str) -> Option<Self> {
        let url = Url::parse(&format!("https://{text}")).ok()?;
        let (host, port) = split_port(url.authority());
        let (host_end, path_start) = (host.len(), host.len() + port.len());
        let text = [host, port, &url.decoded_path()].concat().into();
        Some(Self { text, host_end, port_start: host_end, path_start })
    }

    #[inline]
    pub(super) fn host(&self) -> &[u8] {
        &self.text[..self.host_end]
    }

    #[inline]
    pub(super) fn port(&self) -> &[u8] {
        &self.text[self.port_start..self.path_start]
    }

    #[inline]
    pub(super) fn path(&self) -> &[u8] {
        &self.text[self.path_start..]
    }
}

/// Where the host ends, and where port and path begin, in a name of ordinary characters, which
/// needs no URL parser.
#[expect(
    clippy::inline_always,
    reason = "a call, and its answer in memory, take a tenth of a match"
)]
#[inline(always)]
fn plain(text: &[u8]) -> Option<[usize; 3]> {
    if !all_usual(text) {
        return unusual(text);
    }
    // No other ordinary character ends a host, and all of them may occur in a path.
    let host_end = memchr2(b'/', b':', text).unwrap_or(text.len());
    let (port_start, path_start) = port_and_path(text, host_end);
    matches!(text[path_start..], [] | [b'/', ..]).then_some([host_end, port_start, path_start])
}

/// Splits names with a digest, and others that need a closer look.
fn unusual(text: &[u8]) -> Option<[usize; 3]> {
    let host_end = run(text, is_host);
    let (port_start, path_start) = port_and_path(text, host_end);
    let path = &text[path_start..];
    let fits = matches!(path, [] | [b'/', ..]) && run(path, is_path) == path.len();
    fits.then_some([host_end, port_start, path_start])
}

#[inline]
fn port_and_path(text: &[u8], host_end: usize) -> (usize, usize) {
    match &text[host_end..] {
        [b':', rest @ ..] => {
            let digits = rest.iter().take_while(|byte| is_digit(**byte)).count();
            (host_end + 1, host_end + 1 + digits)
        }
        _ => (host_end, host_end),
    }
}

/// Whether all characters are ordinary: letters, digits and `-./:_`.
#[inline]
fn all_usual(text: &[u8]) -> bool {
    let usual = |block: &[u8; 16]| block.iter().fold(true, |ok, byte| ok & is_usual(*byte));
    match text.last_chunk() {
        // The last block may overlap the one before.
        Some(last) => text.as_chunks().0.iter().all(usual) && usual(last),
        None => text.iter().all(|byte| is_usual(*byte)),
    }
}

/// How many bytes at the start of `text` fit: whole blocks while they fit, then byte by byte.
#[inline]
fn run(text: &[u8], fits: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(block) = text[at..].first_chunk::<16>() {
        // Without an early exit the compiler checks the whole block in one step.
        if !block.iter().fold(true, |ok, byte| ok & fits(*byte)) {
            break;
        }
        at += block.len();
    }
    at + text[at..].iter().take_while(|byte| fits(**byte)).count()
}

/// Whether a byte is a letter, a digit or one of `-./:_`. The range from `-` to `:` has nothing else.
#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
const fn is_usual(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    letter | (byte.wrapping_sub(b'-') <= b':' - b'-') | (byte == b'_')
}

#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
const fn is_host(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    letter | is_digit(byte) | (byte == b'.') | (byte == b'-') | (byte == b'_')
}

const fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

/// Whether a byte needs no escape in the path of a URL.
#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
const fn is_path(byte: u8) -> bool {
    (byte > b' ') & (byte < 0x7f) & (byte != b'%') & (byte != b'?') & (byte != b'#')
}

/// Host and port of an authority, as Go's `net.SplitHostPort` splits them; if that fails, the whole
/// is the host.
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
