//! An image's name as a pull sees it: registry filled in, tag and digest removed.

use std::fmt;

const HUB: &str = "docker.io";

/// Why a text is not an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnImage(&'static str);

/// The full name of an image, without tag and digest, as the kubelet matches it (IM-11).
///
/// ```
/// # use keyward_image::normalise;
/// assert_eq!(normalise("nginx").unwrap(), "docker.io/library/nginx");
/// assert_eq!(normalise("r.io:5000/team/app:1.2").unwrap(), "r.io:5000/team/app");
/// assert!(normalise("Not An Image").is_err());
/// ```
pub fn normalise(image: &str) -> Result<String, NotAnImage> {
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(NotAnImage("it is an image ID, not a name"));
    }
    let (domain, rest) = split_domain(image);
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (rest, None),
    };
    let (path, tag) = match rest.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let library = domain == HUB && !path.contains('/');
    let path = if library { format!("library/{path}") } else { path.to_owned() };
    if path.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(NotAnImage("the repository's name must be in lower case"));
    }
    if !is_domain(domain) {
        return Err(NotAnImage("the registry's name is not a host name"));
    }
    if !path.split('/').all(is_component) {
        return Err(NotAnImage(
            "the repository's name must consist of letters and digits with single separators",
        ));
    }
    if path.len() > 255 {
        return Err(NotAnImage("the repository's name is longer than 255 characters"));
    }
    if tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(NotAnImage("the tag is not valid"));
    }
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err(NotAnImage("the digest is not valid"));
    }
    Ok(format!("{domain}/{path}"))
}

/// The part before the first slash is a registry only if it looks like one.
fn split_domain(image: &str) -> (&str, &str) {
    let (domain, rest) = match image.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            (first, rest)
        }
        _ => (HUB, image),
    };
    if domain == "index.docker.io" { (HUB, rest) } else { (domain, rest) }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !domain.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    if port.is_some_and(|p| p.is_empty() || !p.bytes().all(|b| b.is_ascii_digit())) {
        return false;
    }
    match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(address) => {
            !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
        }
        None => host.split('.').all(|label| {
            let end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
            let bytes = label.as_bytes();
            end(bytes.first())
                && end(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
        }),
    }
}

/// Letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(component: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut rest = component.as_bytes();
    loop {
        let word = rest.iter().take_while(|b| plain(**b)).count();
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        if rest.is_empty() {
            return true;
        }
        let gap = rest.iter().take_while(|b| !plain(**b)).count();
        let separator = &rest[..gap];
        if !(matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-')) {
            return false;
        }
        rest = &rest[gap..];
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let mut bytes = tag.bytes();
    tag.len() <= 128
        && bytes.next().is_some_and(word)
        && bytes.all(|b| word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let length = match digest.split_once(':') {
        Some(("sha256", _)) => 64,
        Some(("sha384", _)) => 96,
        Some(("sha512", _)) => 128,
        _ => return false,
    };
    let hex = &digest[7..];
    hex.len() == length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for NotAnImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an image: {}", self.0)
    }
}

impl std::error::Error for NotAnImage {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_what_a_pull_looks_up() {
        let digest = "a".repeat(64);
        for (image, full) in [
            ("nginx", "docker.io/library/nginx"),
            ("nginx:1.27", "docker.io/library/nginx"),
            ("team/app", "docker.io/team/app"),
            ("index.docker.io/nginx", "docker.io/library/nginx"),
            ("docker.io/nginx", "docker.io/library/nginx"),
            ("localhost/x", "localhost/x"),
            ("localhost:5000/x:t", "localhost:5000/x"),
            ("host:5000", "docker.io/library/host"),
            ("R/x", "R/x"),
            ("[::1]:5000/x", "[::1]:5000/x"),
            ("a.b/c__d/e--f/g.h", "a.b/c__d/e--f/g.h"),
            (&format!("r.io/x:t@sha256:{digest}"), "r.io/x"),
        ] {
            assert_eq!(normalise(image).as_deref(), Ok(full), "{image}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let hex = "a".repeat(64);
        for image in [
            "",
            "/",
            "r.io/",
            "r.io/X",
            "r.io/a___b",
            "r.io/-a",
            "r.io/a..b",
            "r.io/a b",
            "a:",
            "r.io/a:-t",
            "r.io/a@sha256:12",
            "r.io/a@md5:00",
            "-r.io/a",
            "r.io:x/a",
            "https://r.io/a",
            &hex,
            "*.io/x",
        ] {
            assert!(normalise(image).is_err(), "{image}");
        }
    }
}
