//! The rules of the reference, one after the other, as slowly as they are written.
//!
//! A text is put behind `https://` and read as Go's `net/url` reads it; host and port are split as
//! `net.SplitHostPort` does; ports are equal; the labels of the host are equal in number and each
//! matches as `path/filepath` matches; the path of the image begins with the path of the pattern.
//! Nothing here is shared with what it is compared to.

use std::net::Ipv6Addr;

use keyward_image::Reading;

/// A pattern or an image, taken apart.
pub struct Plain {
    labels: Vec<Vec<u8>>,
    port: Vec<u8>,
    path: Vec<u8>,
}

impl Plain {
    /// `None` is a text that Go refuses to read as a URL.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.iter().any(|byte| *byte < 0x20 || *byte == 0x7f) {
            return None;
        }
        let (rest, fragment) = cut(text, b'#');
        unescape(fragment, Part::Other)?;
        let (rest, _query) = cut(rest, b'?');
        let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(slash);
        let host = match authority.iter().rposition(|byte| *byte == b'@') {
            Some(at) => {
                user(&authority[..at])?;
                &authority[at + 1..]
            }
            None => authority,
        };
        let host = read_host(host)?;
        let path = unescape(path, Part::Other)?;
        let (name, port) = split_host_port(&host).unwrap_or((host.clone(), Vec::new()));
        let labels = name.split(|byte| *byte == b'.').map(<[u8]>::to_vec).collect();
        Some(Self { labels, port, path })
    }

    /// Whether this pattern means that image.
    pub fn means(&self, image: &Self, reading: Reading) -> bool {
        let any_port = reading == Reading::Proposal && self.port.is_empty();
        if !any_port && self.port != image.port {
            return false;
        }
        if self.labels.len() != image.labels.len() || !image.path.starts_with(&self.path) {
            return false;
        }
        if reading == Reading::Segments && !ends_a_segment(&self.path, &image.path) {
            return false;
        }
        self.labels
            .iter()
            .zip(&image.labels)
            .all(|(pattern, label)| filepath_match(pattern, label) == Some(true))
    }
}

/// Ours, not the reference's: `/foo` means `/foo`, `/foo/bar`, `/foo:tag` and `/foo@digest`.
fn ends_a_segment(pattern: &[u8], image: &[u8]) -> bool {
    if pattern.is_empty() || pattern[pattern.len() - 1] == b'/' || pattern.len() == image.len() {
        return true;
    }
    matches!(image[pattern.len()], b'/' | b':' | b'@')
}

fn cut(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == at) {
        Some(place) => (&text[..place], &text[place + 1..]),
        None => (text, &[]),
    }
}

/// User and password: only some characters may stand there.
fn user(text: &[u8]) -> Option<()> {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !text.iter().all(fits) {
        return None;
    }
    let (name, password) = cut(text, b':');
    unescape(name, Part::Other)?;
    unescape(password, Part::Other)?;
    Some(())
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Host,
    Zone,
    Other,
}

fn read_host(text: &[u8]) -> Option<Vec<u8>> {
    match text.iter().rposition(|byte| *byte == b'[') {
        Some(0) => {}
        Some(_) => return None,
        None => {
            let colon = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
            return if optional_port(&text[colon..]) { unescape(text, Part::Host) } else { None };
        }
    }
    let end = text.iter().rposition(|byte| *byte == b']')?;
    let (inside, port) = (&text[1..end], &text[end + 1..]);
    if !optional_port(port) {
        return None;
    }
    let zone = inside.windows(3).position(|three| three == b"%25").unwrap_or(inside.len());
    let mut host = unescape(&inside[..zone], Part::Host)?;
    host.extend(unescape(&inside[zone..], Part::Zone)?);
    let (address, name) = cut(&host, b'%');
    let zoned = address.len() < host.len();
    std::str::from_utf8(address).ok()?.parse::<Ipv6Addr>().ok()?;
    if zoned && name.is_empty() {
        return None;
    }
    Some([b"[", &host[..], b"]", port].concat())
}

/// Nothing, or a colon with digits or without.
fn optional_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

fn unescape(text: &[u8], part: Part) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if byte == b'%' {
            let (high, low) = (hex(*text.get(at + 1)?)?, hex(*text.get(at + 2)?)?);
            let value = high * 16 + low;
            // In a host only what is not ASCII may be written so, and the per cent itself.
            if part == Part::Host && high < 8 && value != b'%' {
                return None;
            }
            if part == Part::Zone && value != b'%' && value != b' ' && !in_host(value) {
                return None;
            }
            out.push(value);
            at += 3;
            continue;
        }
        if part != Part::Other && byte < 0x80 && !in_host(byte) {
            return None;
        }
        out.push(byte);
        at += 1;
    }
    Some(out)
}

fn in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// `None` where Go returns an error; then all of it is the host.
fn split_host_port(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = text.iter().rposition(|byte| *byte == b':')?;
    let (mut first, mut second) = (0, 0);
    let host;
    if text[0] == b'[' {
        let end = text.iter().position(|byte| *byte == b']')?;
        if end + 1 != colon {
            return None;
        }
        host = &text[1..end];
        first = 1;
        second = end + 1;
    } else {
        host = &text[..colon];
        if host.contains(&b':') {
            return None;
        }
    }
    if text[first..].contains(&b'[') || text[second..].contains(&b']') {
        return None;
    }
    Some((host.to_vec(), text[colon + 1..].to_vec()))
}

/// Go's `filepath.Match`; `None` is a malformed pattern.
fn filepath_match(mut pattern: &[u8], mut name: &[u8]) -> Option<bool> {
    'pattern: while !pattern.is_empty() {
        let (star, chunk, rest) = scan_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            return Some(!name.contains(&b'/'));
        }
        match match_chunk(chunk, name)? {
            Some(rest) if rest.is_empty() || !pattern.is_empty() => {
                name = rest;
                continue;
            }
            _ => {}
        }
        if star {
            let mut skip = 0;
            while skip < name.len() && name[skip] != b'/' {
                match match_chunk(chunk, &name[skip + 1..])? {
                    Some(rest) if !pattern.is_empty() || rest.is_empty() => {
                        name = rest;
                        continue 'pattern;
                    }
                    _ => skip += 1,
                }
            }
        }
        return Some(false);
    }
    Some(name.is_empty())
}

/// Stars at the beginning, then all up to the next star that stands in no class.
fn scan_chunk(pattern: &[u8]) -> (bool, &[u8], &[u8]) {
    let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
    let pattern = &pattern[stars..];
    let mut in_class = false;
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'\\' if at + 1 < pattern.len() => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'*' if !in_class => break,
            _ => {}
        }
        at += 1;
    }
    (stars > 0, &pattern[..at], &pattern[at..])
}

/// What is left of `name` behind the chunk; the outer `None` is a malformed pattern, the inner one no
/// match.
#[expect(clippy::option_option, reason = "Go has three results here too")]
fn match_chunk<'n>(mut chunk: &[u8], mut name: &'n [u8]) -> Option<Option<&'n [u8]>> {
    // It goes on after a mismatch, to find what is malformed.
    let mut failed = false;
    while !chunk.is_empty() {
        failed |= name.is_empty();
        match chunk[0] {
            b'[' => {
                let mut letter = '\0';
                if !failed {
                    let (found, size) = rune(name);
                    letter = found;
                    name = &name[size..];
                }
                chunk = &chunk[1..];
                let negated = chunk.first() == Some(&b'^');
                if negated {
                    chunk = &chunk[1..];
                }
                let (mut matched, mut ranges) = (false, 0);
                loop {
                    if chunk.first() == Some(&b']') && ranges > 0 {
                        chunk = &chunk[1..];
                        break;
                    }
                    let (low, rest) = class_end(chunk)?;
                    chunk = rest;
                    let mut high = low;
                    if chunk[0] == b'-' {
                        let (end, rest) = class_end(&chunk[1..])?;
                        high = end;
                        chunk = rest;
                    }
                    matched |= low <= letter && letter <= high;
                    ranges += 1;
                }
                failed |= matched == negated;
            }
            b'?' => {
                if !failed {
                    failed |= name[0] == b'/';
                    name = &name[rune(name).1..];
                }
                chunk = &chunk[1..];
            }
            first => {
                let literal = if first == b'\\' {
                    chunk = &chunk[1..];
                    *chunk.first()?
                } else {
                    first
                };
                if !failed {
                    failed |= literal != name[0];
                    name = &name[1..];
                }
                chunk = &chunk[1..];
            }
        }
    }
    Some((!failed).then_some(name))
}

/// One end of a range, and what follows, which must be something.
fn class_end(chunk: &[u8]) -> Option<(char, &[u8])> {
    let chunk = match chunk.first()? {
        b'-' | b']' => return None,
        b'\\' => &chunk[1..],
        _ => chunk,
    };
    if chunk.is_empty() {
        return None;
    }
    let (letter, size) = rune(chunk);
    if letter == char::REPLACEMENT_CHARACTER && size == 1 {
        return None;
    }
    let rest = &chunk[size..];
    (!rest.is_empty()).then_some((letter, rest))
}

/// The first character, and how many bytes it has. A byte that begins none is a replacement of one.
fn rune(text: &[u8]) -> (char, usize) {
    for size in 1..=text.len().min(4) {
        if let Ok(part) = std::str::from_utf8(&text[..size])
            && let Some(letter) = part.chars().next()
        {
            return (letter, size);
        }
    }
    (char::REPLACEMENT_CHARACTER, usize::from(!text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(pattern: &str, image: &str) -> bool {
        match (Plain::parse(pattern), Plain::parse(image)) {
            (Some(pattern), Some(image)) => pattern.means(&image, Reading::Kubelet),
            _ => false,
        }
    }

    #[test]
    fn the_rules_are_the_references() {
        for (pattern, image, expected) in [
            ("*.registry.io", "eu.registry.io/x", true),
            ("*.registry.io", "registry.io/x", false),
            ("*.*.io", "a.b.io", true),
            ("a*b.io", "axb.io", true),
            ("a*b.io", "ab.io", true),
            ("r.io", "r.io:5000/x", false),
            ("r.io:5000/x", "r.io:5000/xy", true),
            ("r.io/%78", "r.io/x", true),
            ("r.io/x?q#f", "r.io/x", true),
            ("u@r.io", "r.io", true),
            ("[::1]", "[::1]", false),
            ("[::1]:5000", "[::1]:5000/x", true),
            ("*:5000", "[::1%25en0]:5000/x", true),
            ("*:5000", "[a]:5000/x", false),
            ("*", "a:b:5000", false),
            ("https://r.io", "r.io", false),
            ("r io", "r io", false),
            ("R.io", "r.io", false),
            ("nginx:latest", "nginx:latest", false),
        ] {
            assert_eq!(means(pattern, image), expected, "{pattern} {image}");
        }
    }
}
