//! A text as it is and decoded, so that a secret is found in whatever form it is repeated.
//!
//! The text is decoded, not the secrets encoded: a secret inside of something longer that was encoded
//! as a whole (`user:password` in base64) has another form each time.

use std::{borrow::Cow, ops::Range};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use zeroize::Zeroizing;

use super::{HIDDEN, known::Known};

/// Base64 without padding, whatever its last bits are: a view may begin and end anywhere in it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// A shorter secret may stand by chance in a text whose white space is taken out.
const LEAST_SQUEEZED: usize = 12;

/// So many bytes that can be printed in a row do not come from decoding what was never encoded.
const PRINTABLE: usize = 16;

/// How often something may have been encoded: `data` of a Kubernetes secret, with a docker login in it.
const DEEPEST: usize = 3;

/// The text without the secrets of these sets.
pub(super) fn hide<'a>(text: &'a str, sets: &[&Known]) -> Cow<'a, str> {
    if sets.iter().all(|set| set.is_empty()) {
        return Cow::Borrowed(text);
    }
    let mut search = Search { sets, found: Vec::new() };
    search.scan(text.as_bytes(), 0, |range| range);
    let view = View::of(text);
    search.search_decoded(&view, DEEPEST);
    search.replace(text)
}

/// Bytes, and from where in the text each of them comes.
struct View {
    bytes: Zeroizing<Vec<u8>>,
    from: Vec<Range<u32>>,
}

struct Search<'a> {
    sets: &'a [&'a Known],
    /// Parts of the text that are hidden.
    found: Vec<Range<usize>>,
}

impl Search<'_> {
    /// Looks for secrets in a view of the text, and in all that can be decoded from it.
    fn search_decoded(&mut self, view: &View, deeper: usize) {
        for decoded in [view.unescaped(), view.percent_decoded()].into_iter().flatten() {
            self.search_view(&decoded, 0);
        }
        let squeezed = view.squeezed();
        self.search_view(&squeezed, LEAST_SQUEEZED);
        for decoded in squeezed.base64().chain(squeezed.hex()) {
            self.search_view(&decoded, 0);
            if deeper > 0 {
                decoded.printable().for_each(|part| self.search_decoded(&part, deeper - 1));
            }
        }
    }

    fn search_view(&mut self, view: &View, least: usize) {
        self.scan(&view.bytes, least, |range| view.place(&range));
    }

    fn scan(&mut self, bytes: &[u8], least: usize, place: impl Fn(Range<usize>) -> Range<usize>) {
        let mut at = 0;
        while at < bytes.len() {
            let found = self.sets.iter().filter_map(|set| set.at(&bytes[at..], least)).max();
            if let Some(length) = found {
                self.found.push(place(at..at + length));
            }
            at += found.unwrap_or(1);
        }
    }

    fn replace(mut self, text: &str) -> Cow<'_, str> {
        if self.found.is_empty() {
            return Cow::Borrowed(text);
        }
        self.found.sort_by_key(|range| range.start);
        let (mut out, mut shown) = (String::with_capacity(text.len()), 0);
        for Range { start, end } in self.found {
            // Half a character is hidden with its other half.
            let start = (0..=start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = (end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            if start >= shown && !(start == shown && out.ends_with(HIDDEN)) {
                out.push_str(&text[shown..start]);
                out.push_str(HIDDEN);
            }
            shown = shown.max(end);
        }
        out.push_str(&text[shown..]);
        Cow::Owned(out)
    }
}

impl View {
    fn of(text: &str) -> Self {
        let mut view = Self::with_capacity(text.len());
        for at in 0..text.len() {
            view.push(text.as_bytes()[at], at..at + 1);
        }
        view
    }

    fn with_capacity(size: usize) -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(size)), from: Vec::with_capacity(size) }
    }

    fn push(&mut self, byte: u8, from: Range<usize>) {
        let place = |at| u32::try_from(at).unwrap_or(u32::MAX);
        self.bytes.push(byte);
        self.from.push(place(from.start)..place(from.end));
    }

    /// From where in the text a part of the view comes.
    fn place(&self, part: &Range<usize>) -> Range<usize> {
        match self.from.get(part.clone()).and_then(|from| from.first().zip(from.last())) {
            Some((first, last)) => first.start as usize..last.end as usize,
            None => 0..0,
        }
    }

    fn part(&self, part: Range<usize>) -> Self {
        Self {
            bytes: Zeroizing::new(self.bytes[part.clone()].to_vec()),
            from: self.from[part].to_vec(),
        }
    }

    /// Without white space, control characters and what terminals take for colours.
    fn squeezed(&self) -> Self {
        let mut view = Self::with_capacity(self.bytes.len());
        let mut at = 0;
        while at < self.bytes.len() {
            if self.bytes[at..].starts_with(b"\x1b[") {
                let end = self.bytes[at + 2..].iter().position(|b| (0x40..=0x7e).contains(b));
                at += end.map_or(2, |end| end + 3);
                continue;
            }
            if self.bytes[at] > b' ' && self.bytes[at] != 0x7f {
                view.push(self.bytes[at], self.place(&(at..at + 1)));
            }
            at += 1;
        }
        view
    }

    /// With the escapes of JSON (and of most languages' quoted texts) resolved.
    fn unescaped(&self) -> Option<Self> {
        self.decoded(b'\\', |after| match after {
            [b'u', b'0', b'0', high, low, ..] => Some((hex_pair(*high, *low)?, 6)),
            [b'n', ..] => Some((b'\n', 2)),
            [b'r', ..] => Some((b'\r', 2)),
            [b't', ..] => Some((b'\t', 2)),
            [other, ..] => Some((*other, 2)),
            [] => None,
        })
    }

    /// With `%XX` resolved, as in URLs.
    fn percent_decoded(&self) -> Option<Self> {
        self.decoded(b'%', |after| match after {
            [high, low, ..] => Some((hex_pair(*high, *low)?, 3)),
            _ => None,
        })
    }

    /// With every escape resolved that begins with `sign`. `decode` returns the byte that what follows
    /// the sign stands for, and the width of the escape; `None` if it is no escape.
    fn decoded(&self, sign: u8, decode: impl Fn(&[u8]) -> Option<(u8, usize)>) -> Option<Self> {
        memchr::memchr(sign, &self.bytes)?;
        let mut view = Self::with_capacity(self.bytes.len());
        let mut at = 0;
        while at < self.bytes.len() {
            let byte = self.bytes[at];
            let escape = if byte == sign { decode(&self.bytes[at + 1..]) } else { None };
            let (byte, width) = escape.unwrap_or((byte, 1));
            view.push(byte, self.place(&(at..at + width)));
            at += width;
        }
        Some(view)
    }

    /// What every run of base64 or base64url characters may mean: nobody knows with which of them
    /// a group of four begins.
    fn base64(&self) -> impl Iterator<Item = Self> {
        let of_alphabet =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        self.runs(of_alphabet, 6)
            .flat_map(|run| (0..4).map(move |shift| run.start + shift..run.end))
            .filter_map(|run| {
                let mut text = Zeroizing::new(self.bytes[run.clone()].to_vec());
                for byte in text.iter_mut() {
                    *byte = match *byte {
                        b'-' => b'+',
                        b'_' => b'/',
                        other => other,
                    };
                }
                // One character alone is no byte.
                let whole = if text.len() % 4 == 1 { text.len() - 1 } else { text.len() };
                let decoded = Zeroizing::new(BASE64.decode(&text[..whole]).ok()?);
                let mut view = Self::with_capacity(decoded.len());
                for (at, byte) in decoded.iter().enumerate() {
                    let from = run.start + at * 4 / 3..run.start + (at * 4 + 6) / 3;
                    view.push(*byte, self.place(&from));
                }
                Some(view)
            })
    }

    /// What every run of hexadecimal digits may mean.
    fn hex(&self) -> impl Iterator<Item = Self> {
        self.runs(u8::is_ascii_hexdigit, 8)
            .flat_map(|run| (0..2).map(move |shift| (run.clone(), shift)))
            .map(|(run, shift)| {
                let start = run.start + shift;
                let pairs = self.bytes[start..run.end].chunks_exact(2);
                let mut view = Self::with_capacity(pairs.len());
                for (at, pair) in pairs.enumerate() {
                    let byte = hex_pair(pair[0], pair[1]).unwrap_or_default();
                    view.push(byte, self.place(&(start + at * 2..start + at * 2 + 2)));
                }
                view
            })
    }

    /// The parts that may be a text.
    fn printable(&self) -> impl Iterator<Item = Self> {
        let printable = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t');
        self.runs(printable, PRINTABLE).map(|run| self.part(run))
    }

    /// The parts of at least this length that consist of such bytes only.
    fn runs(&self, such: impl Fn(&u8) -> bool, least: usize) -> impl Iterator<Item = Range<usize>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < self.bytes.len() {
                let start = at;
                while at < self.bytes.len() && such(&self.bytes[at]) {
                    at += 1;
                }
                let run = start..at;
                at += 1;
                if run.len() >= least {
                    return Some(run);
                }
            }
            None
        })
    }
}

fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}
