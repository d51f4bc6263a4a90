//! The text of a YAML stream: its encoding, and the first byte that is not text.

use std::borrow::Cow;

use super::{SyntaxError, fault, window};

/// The readable part of a stream.
pub(super) struct Source<'a> {
    /// Everything up to the first thing that may not stand in YAML, without byte order mark.
    pub(super) text: Cow<'a, str>,
    /// Whether a byte order mark stands in that text.
    pub(super) marked: bool,
    /// What ends the text early.
    bad: Option<Bad>,
    /// How wide the mark before the text is.
    mark: usize,
    wide: bool,
}

struct Bad {
    what: &'static str,
    /// Where in the text the reference starts to read the portion with the bad byte in it.
    portion: usize,
}

impl<'a> Source<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xff, 0xfe, rest @ ..] => Self::utf16(rest, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => Self::utf16(rest, u16::from_be_bytes),
            [0xef, 0xbb, 0xbf, rest @ ..] => Self::utf8(rest, 3),
            _ => Self::utf8(bytes, 0),
        }
    }

    fn utf8(bytes: &'a [u8], mark: usize) -> Self {
        let chunk = bytes.utf8_chunks().next();
        let good = chunk.map_or("", |chunk| chunk.valid());
        // Most texts have none, which is quick to check.
        let usual = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
        let plain = good.as_bytes().iter().all(usual);
        let end = if plain { None } else { good.find(is_forbidden) };
        let (text, what) = match end {
            Some(end) => (&good[..end], Some("a control character stands in the document")),
            None if good.len() < bytes.len() => (good, Some("a byte is not UTF-8")),
            None => (good, None),
        };
        // A character that the end cuts short is noticed by whoever comes there, not before.
        let cut = text.len() == good.len()
            && std::str::from_utf8(&bytes[text.len()..]).is_err_and(|e| e.error_len().is_none());
        let portion = if cut { text.len() } else { portion(text, mark) };
        let bad = what.map(|what| Bad { what, portion });
        let marked = !plain && window::is_marked(text);
        Self { text: Cow::Borrowed(text), marked, bad, mark, wide: false }
    }

    fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Self {
        let units = bytes.chunks(2).map(|pair| pair.try_into().map_or(0xd800, unit));
        let mut text = String::new();
        let mut what = None;
        for character in char::decode_utf16(units) {
            match character {
                Ok(character) if !is_forbidden(character) => text.push(character),
                Ok(_) => what = Some("a control character stands in the document"),
                Err(_) => what = Some("a byte is not UTF-16"),
            }
            if what.is_some() {
                break;
            }
        }
        let bad = what.map(|what| Bad { what, portion: text.len() });
        let marked = window::is_marked(&text);
        Self { text: Cow::Owned(text), marked, bad, mark: 2, wide: true }
    }

    /// Moves an error behind the text to its last line: to a scanner the end is a line of its own, which
    /// no editor shows.
    pub(super) fn place(&self, error: SyntaxError) -> SyntaxError {
        let text = self.text.replace("\r\n", "\n");
        let mut lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
        let (count, last) = (lines.clone().count(), lines.next_back().unwrap_or_default());
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        if error.line <= number(count) {
            return error;
        }
        SyntaxError { line: number(count), column: number(last.chars().count() + 1), ..error }
    }

    /// How many bytes stand before the text; `None` if its bytes are others than those of the document.
    pub(super) fn offset(&self) -> Option<usize> {
        (!self.wide).then_some(self.mark)
    }

    /// Where the portion ends that the reference reads after the one that ended at `start`.
    pub(super) fn portion_after(&self, start: usize) -> usize {
        let mut left = if start == 0 { PORTION - self.mark } else { PORTION };
        let mut end = start;
        for character in self.text[start..].chars() {
            let width = if self.wide { 2 * character.len_utf16() } else { character.len_utf8() };
            if width > left {
                break;
            }
            left -= width;
            end += character.len_utf8();
        }
        end
    }

    /// The error of a reader that has come to `at`, or needed to look as far as that.
    pub(super) fn check(&self, at: usize) -> Result<(), SyntaxError> {
        match &self.bad {
            Some(bad) if at >= bad.portion => {
                let line = self.text.matches('\n').count() + 1;
                let last = self.text.rsplit('\n').next().unwrap_or_default();
                let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                Err(fault(bad.what, count(line), count(last.chars().count() + 1)))
            }
            _ => Ok(()),
        }
    }
}

const PORTION: usize = 512;

/// The reference reads in portions of 512 bytes, cut where a character ends, and complains about
/// a whole portion before it looks at the beginning of it.
fn portion(text: &str, mark: usize) -> usize {
    let mut start = 0;
    let mut size = PORTION - mark;
    while start + size <= text.len() {
        start += size;
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        size = PORTION;
    }
    start
}

fn is_forbidden(character: char) -> bool {
    !matches!(
        character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..
    )
}
