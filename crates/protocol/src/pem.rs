//! PEM blocks as Go's `encoding/pem` finds them: tolerant of what stands between them, strict
//! about the blocks themselves. A block that is cut off or malformed does not hide the ones after it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

use crate::text::from_base64;

/// One block.
pub struct Block {
    /// What stands after `BEGIN`.
    pub label: String,
    /// Whether there are headers before the content.
    pub has_headers: bool,
    /// Whether a header says that the content is encrypted.
    pub is_encrypted: bool,
    /// The content, decoded.
    pub content: Zeroizing<Vec<u8>>,
}

/// The blocks of a text, in order.
pub struct Blocks<'a>(&'a [u8]);

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

impl<'a> Blocks<'a> {
    /// Reads blocks from `text`, which need not be UTF-8 between them.
    pub fn of(text: &'a [u8]) -> Self {
        Self(text)
    }
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        loop {
            // The first end, and the last beginning before it: beginnings without an end of
            // their own are text.
            let end = find(self.0, END)?;
            let begin = (0..=end.saturating_sub(BEGIN.len()))
                .rev()
                .find(|&at| self.0[at..end].starts_with(BEGIN));
            let after = end + END.len();
            let Some(begin) = begin.filter(|&at| at == 0 || self.0[at - 1] == b'\n') else {
                self.0 = &self.0[after..];
                continue;
            };
            match read(&self.0[begin + BEGIN.len()..], end - begin - BEGIN.len()) {
                Some((block, rest)) => {
                    self.0 = rest;
                    return Some(block);
                }
                None => self.0 = &self.0[after..],
            }
        }
    }
}

/// Reads the block whose label starts at `text` and whose end line starts at `end`.
fn read(text: &[u8], end: usize) -> Option<(Block, &[u8])> {
    let (label_line, mut at) = line(text, 0);
    let label = label_line.strip_suffix(DASHES)?;
    let mut is_encrypted = false;
    let mut has_headers = false;
    loop {
        if at >= text.len() {
            return None;
        }
        let (header, next) = line(text, at);
        let Some(colon) = header.iter().position(|&byte| byte == b':') else { break };
        has_headers = true;
        let (name, value) = (header[..colon].trim_ascii(), &header[colon + 1..]);
        is_encrypted |= name == b"Proc-Type" && find(value, b"ENCRYPTED").is_some();
        at = next;
        // Headers that go on behind the end make it no block. Whoever read on would read the rest
        // of the text anew for each of its blocks.
        if at > end {
            return None;
        }
    }
    // An empty block: its label line is what the end line follows.
    if end < at && (has_headers || end + 1 < at) {
        return None;
    }
    let trailer = text.get(end + END.len()..)?;
    let rest = trailer.strip_prefix(label)?.strip_prefix(DASHES)?;
    if !line(rest, 0).0.is_empty() {
        return None;
    }
    let mut packed = Zeroizing::new(text.get(at..end).unwrap_or_default().to_vec());
    packed.retain(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    let content = Zeroizing::new(from_base64(&packed)?);
    let label = String::from_utf8_lossy(label).into_owned();
    let after = line(rest, 0).1;
    Some((Block { label, has_headers, is_encrypted, content }, &rest[after..]))
}

/// The line that starts at `at` without the white space at its end, and where the next starts.
fn line(text: &[u8], at: usize) -> (&[u8], usize) {
    let text_after = &text[at..];
    let (line, next) = match text_after.iter().position(|&byte| byte == b'\n') {
        Some(length) => {
            let line = &text_after[..length];
            (line.strip_suffix(b"\r").unwrap_or(line), at + length + 1)
        }
        None => (text_after, text.len()),
    };
    let blank = line.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    (&line[..line.len() - blank], next)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// One block, in lines of 64 characters.
pub fn encode(label: &str, content: &[u8]) -> String {
    let packed = Zeroizing::new(STANDARD.encode(content));
    // A key must not be left behind where a text grew.
    let mut out = String::with_capacity(packed.len() + packed.len() / 64 + 2 * label.len() + 64);
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(text: &str) -> Vec<Vec<u8>> {
        Blocks::of(text.as_bytes()).map(|block| block.content.to_vec()).collect()
    }

    #[test]
    fn what_is_written_reads_back() {
        for length in [0, 1, 47, 48, 49, 1000] {
            let content = vec![7; length];
            assert_eq!(contents(&encode("X", &content)), [content]);
        }
    }

    #[test]
    fn a_block_that_is_cut_off_does_not_hide_the_next() {
        let whole = encode("CERTIFICATE", &[7; 200]);
        let cut = &whole[..100];
        assert_eq!(contents(&format!("{cut}\n{whole}")), [vec![7; 200]]);
        assert_eq!(contents(&format!("{whole}{cut}")), [vec![7; 200]]);
    }

    #[test]
    fn text_between_blocks_may_be_anything() {
        let whole = encode("CERTIFICATE", &[7; 20]);
        let text = [b"\xff\xfe junk\n", whole.as_bytes(), b"\n\xff"].concat();
        assert_eq!(Blocks::of(&text).count(), 1);
    }
}
