//! Why a pattern does not match an image.

use keyward_protocol::{Url, text};

use super::{
    Reading,
    lint::misread,
    name::{Name, split_port},
    pattern::Pattern,
};

impl Pattern {
    /// Describes the first part of the pattern that does not match an image; `None` if it matches.
    pub fn mismatch(&self, name: &Name<'_>, reading: Reading) -> Option<String> {
        if self.matches(name, reading) {
            return None;
        }
        if let Some((_, what)) = misread(self) {
            return Some(format!("the pattern {what}"));
        }
        let show = |bytes: &[u8]| text::clean(&String::from_utf8_lossy(bytes));
        if !reading.port_fits(&self.port, name.port()) {
            return Some(match (show(&self.port), show(name.port())) {
                (ours, theirs) if ours.is_empty() => {
                    format!("the image has port {theirs} and the pattern none")
                }
                (ours, theirs) if theirs.is_empty() => {
                    format!("the pattern has port {ours} and the image none")
                }
                (ours, theirs) => format!("the pattern has port {ours} and the image {theirs}"),
            });
        }
        let url = Url::parse(&format!("https://{}", self.text())).ok()?;
        let (host, _) = split_port(url.authority());
        let ours: Vec<&[u8]> = host.split(|b| *b == b'.').collect();
        let theirs: Vec<&[u8]> = name.host().split(|b| *b == b'.').collect();
        if ours.len() != theirs.len() {
            return Some(format!(
                "the pattern's host has {} labels and the image's {}; a `*` is one label",
                ours.len(),
                theirs.len()
            ));
        }
        // The globs are stored from the right.
        let pairs = self.labels.iter().rev().zip(ours.into_iter().zip(theirs));
        for (glob, (ours, theirs)) in pairs {
            if !glob.matches(theirs) {
                return Some(format!("`{}` does not match `{}`", show(theirs), show(ours)));
            }
        }
        let path = show(&self.path);
        Some(if name.path().starts_with(&self.path) {
            format!("`{path}` ends inside a segment of the image's path")
        } else {
            format!("the image's path does not begin with `{path}`")
        })
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
            ("a*.b.io", "c.b.io/x", Reading::Kubelet, Some("`c` does not match `a*`")),
            ("https://a.io", "a.io/x", Reading::Kubelet, Some("pattern begins with a scheme")),
            ("a?b.io", "ab.io/x", Reading::Kubelet, Some("the pattern has a part that is ignored")),
            ("[::1]", "[::1]/x", Reading::Kubelet, Some("IPv6 address without a port")),
            ("a.io/y", "a.io/x", Reading::Kubelet, Some("does not begin with `/y`")),
            ("a.io/x", "a.io/xy", Reading::Kubelet, None),
            ("a.io/x", "a.io/xy", Reading::Segments, Some("`/x` ends inside a segment")),
        ] {
            let parsed = Pattern::parse(pattern).expect("a pattern");
            let name = Name::parse(image).expect("a name");
            let found = parsed.mismatch(&name, reading);
            let fits = match (&found, reason) {
                (Some(found), Some(reason)) => found.contains(reason),
                (found, reason) => found.is_none() && reason.is_none(),
            };
            assert!(fits, "{pattern} {image}: {found:?}");
        }
    }
}
