//! Why a pattern does not mean an image, for people who wonder.

use std::fmt;

use keyward_protocol::{Url, text};

use super::{
    Reading,
    lint::misread,
    name::{Name, split_port},
    pattern::Pattern,
};

/// The first thing about a pattern that does not fit an image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The pattern's host is not what it seems to be; what it is, in words.
    Misread(&'static str),
    /// The ports differ; empty is none.
    Port {
        /// The pattern's.
        pattern: String,
        /// The image's.
        image: String,
    },
    /// The hosts have different numbers of labels, and a `*` stands for one.
    Labels {
        /// The pattern's.
        pattern: usize,
        /// The image's.
        image: usize,
    },
    /// A label of the host does not fit.
    Label {
        /// The pattern's.
        pattern: String,
        /// The image's.
        image: String,
    },
    /// The image's path does not begin with the pattern's.
    Path {
        /// The pattern's.
        pattern: String,
    },
    /// The pattern's path ends inside a segment of the image's, and that is not enough here.
    Segment {
        /// The pattern's.
        pattern: String,
    },
}

impl Pattern {
    /// Why it does not mean this image; `None` if it does.
    pub fn mismatch(&self, name: &Name<'_>, reading: Reading) -> Option<Mismatch> {
        if self.matches(name, reading) {
            return None;
        }
        if let Some((_, what)) = misread(self) {
            return Some(Mismatch::Misread(what));
        }
        let show = |bytes: &[u8]| text::clean(&String::from_utf8_lossy(bytes));
        if !reading.port_fits(&self.port, name.port()) {
            return Some(Mismatch::Port { pattern: show(&self.port), image: show(name.port()) });
        }
        let url = Url::parse(&format!("https://{}", self.text())).ok()?;
        let (host, _) = split_port(url.authority());
        let ours: Vec<&[u8]> = host.split(|b| *b == b'.').collect();
        let theirs: Vec<&[u8]> = name.host().split(|b| *b == b'.').collect();
        if ours.len() != theirs.len() {
            return Some(Mismatch::Labels { pattern: ours.len(), image: theirs.len() });
        }
        // The globs are kept from the right.
        let pairs = self.labels.iter().rev().zip(ours.into_iter().zip(theirs));
        for (glob, (ours, theirs)) in pairs {
            if !glob.matches(theirs) {
                return Some(Mismatch::Label { pattern: show(ours), image: show(theirs) });
            }
        }
        let pattern = show(&self.path);
        if name.path().starts_with(&self.path) {
            Some(Mismatch::Segment { pattern })
        } else {
            Some(Mismatch::Path { pattern })
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misread(what) => write!(f, "the pattern {what}"),
            Self::Port { pattern, image } if pattern.is_empty() => {
                write!(f, "the image has port {image} and the pattern none")
            }
            Self::Port { pattern, image } if image.is_empty() => {
                write!(f, "the pattern has port {pattern} and the image none")
            }
            Self::Port { pattern, image } => {
                write!(f, "the pattern has port {pattern} and the image {image}")
            }
            Self::Labels { pattern, image } => write!(
                f,
                "the pattern's host has {pattern} labels and the image's {image}; a `*` is one label"
            ),
            Self::Label { pattern, image } => write!(f, "`{image}` does not fit `{pattern}`"),
            Self::Path { pattern } => write!(f, "the image's path does not begin with `{pattern}`"),
            Self::Segment { pattern } => {
                write!(f, "`{pattern}` ends inside a segment of the image's path")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_first_thing_that_does_not_fit() {
        for (pattern, image, reading, reason) in [
            ("a.io", "a.io/x", Reading::Kubelet, None),
            ("a.io:1", "a.io/x", Reading::Kubelet, Some("has port 1 and the image none")),
            ("a.io", "a.io:1/x", Reading::Kubelet, Some("image has port 1 and the pattern none")),
            ("a.io", "a.io:1/x", Reading::Proposal, None),
            ("a.io:1", "a.io:2/x", Reading::Kubelet, Some("port 1 and the image 2")),
            ("*.io", "a.b.io/x", Reading::Kubelet, Some("2 labels and the image's 3")),
            ("a*.b.io", "c.b.io/x", Reading::Kubelet, Some("`c` does not fit `a*`")),
            ("https://a.io", "a.io/x", Reading::Kubelet, Some("pattern begins with a scheme")),
            ("a?b.io", "ab.io/x", Reading::Kubelet, Some("the pattern has a part that is ignored")),
            ("[::1]", "[::1]/x", Reading::Kubelet, Some("IPv6 address without a port")),
            ("a.io/y", "a.io/x", Reading::Kubelet, Some("does not begin with `/y`")),
            ("a.io/x", "a.io/xy", Reading::Kubelet, None),
            ("a.io/x", "a.io/xy", Reading::Strict, Some("`/x` ends inside a segment")),
        ] {
            let parsed = Pattern::parse(pattern).expect("a pattern");
            let name = Name::parse(image).expect("a name");
            let found = parsed.mismatch(&name, reading).map(|m| m.to_string());
            let fits = match (&found, reason) {
                (Some(found), Some(reason)) => found.contains(reason),
                (found, reason) => found.is_none() && reason.is_none(),
            };
            assert!(fits, "{pattern} {image}: {found:?}");
        }
    }
}
