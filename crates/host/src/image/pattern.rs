//! A pattern and an image name, parsed as the reference parses them.

use std::{borrow::Cow, fmt};

use keyward_protocol::Url;

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
        let mut labels = name.host.rsplit(|b| *b == b'.');
        reading.port_fits(&self.port, name.port())
            && reading.path_fits(&self.path, &name.path)
            && self.labels.iter().all(|glob| labels.next().is_some_and(|label| glob.matches(label)))
            && labels.next().is_none()
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
        let slash = text.iter().position(|b| *b == b'/').unwrap_or(text.len());
        let (authority, path) = text.split_at(slash);
        let (host, port) = match authority.iter().position(|b| *b == b':') {
            Some(colon) => (&authority[..colon], &authority[colon + 1..]),
            None => (authority, &[][..]),
        };
        let ordinary = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let fits = host.iter().all(ordinary)
            && port.iter().all(u8::is_ascii_digit)
            && path.iter().all(|b| ordinary(b) || matches!(b, b'/' | b':' | b'@'));
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

/// Host and port of an authority, as Go's `net.SplitHostPort` sees them; where that fails, all of
/// it is the host.
fn split_port(authority: &[u8]) -> (&[u8], &[u8]) {
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
