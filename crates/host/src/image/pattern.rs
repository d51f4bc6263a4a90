//! A pattern and an image name, parsed as the reference parses them.

use std::{borrow::Cow, fmt};

use keyward_protocol::Url;
use memchr::{memchr, memrchr};

use super::{Reading, glob::Glob};

/// A pattern such as `*.dkr.ecr.*.amazonaws.com/team`, parsed once.
///
/// ```
/// # use keyward_host::image::{Name, Pattern, Reading};
/// let pattern = Pattern::parse("*.registry.io:8080/team")?;
/// let image = Name::parse("eu.registry.io:8080/team/app").unwrap();
/// assert!(pattern.matches(&image, Reading::Kubelet));
/// # Ok::<(), keyward_host::image::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    /// The host's labels, from the right.
    pub(super) labels: Vec<Glob>,
    pub(super) port: Vec<u8>,
    pub(super) path: Vec<u8>,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternError(());

impl Pattern {
    /// Parses a pattern. Globs are understood in the host only; a path is a literal prefix.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let url = Url::parse(&format!("https://{text}")).map_err(|_| PatternError(()))?;
        let (host, port) = split_port(url.authority());
        Ok(Self {
            text: text.to_owned(),
            labels: host.rsplit(|b| *b == b'.').map(Glob::compile).collect(),
            port: port.to_vec(),
            path: url.decoded_path(),
        })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it means this image.
    pub fn matches(&self, name: &Name<'_>, reading: Reading) -> bool {
        reading.port_fits(&self.port, name.port())
            && reading.path_fits(&self.path, &name.path)
            && self.host_fits(&name.host)
    }

    /// Takes labels off the right end of `host`, one for each of ours.
    fn host_fits(&self, mut host: &[u8]) -> bool {
        let Some((first, others)) = self.labels.split_last() else { return false };
        for glob in others {
            let rest = match glob {
                // No search for the dot where we know how long the label must be.
                Glob::Exact(text) => {
                    host.strip_suffix(&text[..]).and_then(|h| h.strip_suffix(b"."))
                }
                glob => memrchr(b'.', host)
                    .filter(|dot| glob.matches(&host[dot + 1..]))
                    .map(|dot| &host[..dot]),
            };
            let Some(rest) = rest else { return false };
            host = rest;
        }
        memchr(b'.', host).is_none() && first.matches(host)
    }
}

/// An image's name, split as a URL without scheme.
#[derive(Debug, Clone)]
pub struct Name<'a> {
    pub(super) host: Cow<'a, [u8]>,
    port: Cow<'a, [u8]>,
    pub(super) path: Cow<'a, [u8]>,
}

impl<'a> Name<'a> {
    /// Parses a name; `None` for one that nothing can match. Ordinary names cost no allocation.
    pub fn parse(text: &'a str) -> Option<Self> {
        Self::plain(text.as_bytes()).or_else(|| Self::any(text))
    }

    /// A name of ordinary characters needs no URL parser.
    fn plain(text: &'a [u8]) -> Option<Self> {
        let (authority, path) = text.split_at(memchr(b'/', text).unwrap_or(text.len()));
        let (host, port) = match memchr(b':', authority) {
            Some(colon) => (&authority[..colon], &authority[colon + 1..]),
            None => (authority, &[][..]),
        };
        let fits = all(host, is_host) && all(port, is_digit) && all(path, is_path);
        fits.then_some(Self { host: host.into(), port: port.into(), path: path.into() })
    }

    fn any(text: &str) -> Option<Self> {
        let url = Url::parse(&format!("https://{text}")).ok()?;
        let (host, port) = split_port(url.authority());
        Some(Self {
            host: host.to_vec().into(),
            port: port.to_vec().into(),
            path: url.decoded_path().into(),
        })
    }

    pub(super) fn port(&self) -> &[u8] {
        &self.port
    }
}

/// Whether all bytes fit. Without an early exit the compiler looks at many of them at once.
fn all(text: &[u8], fits: impl Fn(u8) -> bool) -> bool {
    text.iter().fold(true, |ok, byte| ok & fits(*byte))
}

#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
fn is_host(byte: u8) -> bool {
    let letter = (byte | 0x20).wrapping_sub(b'a') < 26;
    letter | is_digit(byte) | (byte == b'.') | (byte == b'-') | (byte == b'_')
}

fn is_digit(byte: u8) -> bool {
    byte.wrapping_sub(b'0') < 10
}

/// A byte that stands for itself in the path of a URL.
#[expect(clippy::needless_bitwise_bool, reason = "no branches: the loop becomes vector code")]
fn is_path(byte: u8) -> bool {
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

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a registry pattern: it must read as `host[:port][/path]` without scheme")
    }
}

impl std::error::Error for PatternError {}
