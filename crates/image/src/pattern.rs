//! A pattern, parsed as the reference parses it.

use std::fmt;

use keyward_protocol::Url;

use super::{
    Reading,
    glob::Glob,
    name::{Name, split_port},
    short::{before, last_dot, same},
};

/// A pattern such as `*.dkr.ecr.*.amazonaws.com/team`, parsed once.
///
/// ```
/// # use keyward_image::{Name, Pattern, Reading};
/// let pattern = Pattern::parse("*.registry.io:8080/team")?;
/// let image = Name::parse("eu.registry.io:8080/team/app").unwrap();
/// assert!(pattern.matches(&image, Reading::Kubelet));
/// # Ok::<(), keyward_image::PatternError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    /// The host's labels, from the right.
    pub(super) labels: Vec<Glob>,
    /// The labels that are not literals, from the right, each with the literal after it.
    wilds: Vec<Wild>,
    /// The literal left of them all: the whole host if there are none.
    first: Vec<u8>,
    pub(super) port: Vec<u8>,
    pub(super) path: Vec<u8>,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternError(());

impl Pattern {
    /// Parses a pattern. Globs work in the host only; a path is a literal prefix.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let url = Url::parse(&format!("https://{text}")).map_err(|_| PatternError(()))?;
        let (host, port) = split_port(url.authority());
        let labels: Vec<_> = host.rsplit(|b| *b == b'.').map(Glob::compile).collect();
        let (wilds, first) = wilds(&labels);
        Ok(Self {
            text: text.to_owned(),
            labels,
            wilds,
            first,
            port: port.to_vec(),
            path: url.decoded_path(),
        })
    }

    /// The pattern's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches this image. Lookups of many patterns use [`Index`](crate::Index), which
    /// must agree.
    #[inline]
    pub fn matches(&self, name: &Name<'_>, reading: Reading) -> bool {
        reading.port_fits(&self.port, name.port())
            && reading.path_fits(&self.path, name.path())
            && self.host_fits(name.host())
    }

    /// Strips the pattern's parts from the right end of `host`: a literal, one label for a glob,
    /// and so on.
    #[inline]
    fn host_fits(&self, mut host: &[u8]) -> bool {
        for wild in &self.wilds {
            let Some(rest) = before(&wild.after, host) else { return false };
            // Its dot stays: the literal on the left, if there is one, ends with it.
            let start = last_dot(rest).map_or(0, |dot| dot + 1);
            if !wild.any && !self.labels[wild.label].matches(&rest[start..]) {
                return false;
            }
            host = &rest[..start];
        }
        same(host, &self.first)
    }
}

/// A label that is not a literal.
#[derive(Debug, Clone)]
struct Wild {
    /// The label's position.
    label: usize,
    /// A bare `*`, which need not be looked up.
    any: bool,
    /// The literal up to the next such label on the right, with the dots.
    after: Vec<u8>,
}

/// The labels of a host with wildcards from the right, and the literal before the first.
fn wilds(labels: &[Glob]) -> (Vec<Wild>, Vec<u8>) {
    let mut wilds = Vec::new();
    let mut literal = Vec::new();
    for (label, glob) in labels.iter().enumerate() {
        // Backwards, as the labels are.
        if label > 0 {
            literal.push(b'.');
        }
        match glob {
            Glob::Exact(text) => literal.extend(text.iter().rev()),
            Glob::Any | Glob::Gaps(_) | Glob::Odd(_) => {
                literal.reverse();
                let any = matches!(glob, Glob::Any);
                wilds.push(Wild { label, any, after: std::mem::take(&mut literal) });
            }
        }
    }
    literal.reverse();
    (wilds, literal)
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a registry pattern: use the form `host[:port][/path]` without scheme")
    }
}

impl std::error::Error for PatternError {}
