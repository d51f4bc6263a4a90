//! DER, as much of it as certificates, keys and certificate requests need.
//!
//! [`Der`] reads with the strictness of Go's readers: single-byte tags and minimal lengths. What
//! follows the last known field of a sequence is left alone. [`element`] and its companions write.

/// `BOOLEAN`
pub const BOOLEAN: u8 = 0x01;
/// `INTEGER`
pub const INTEGER: u8 = 0x02;
/// `BIT STRING`
pub const BIT_STRING: u8 = 0x03;
/// `OCTET STRING`
pub const OCTET_STRING: u8 = 0x04;
/// `OBJECT IDENTIFIER`
pub const OID: u8 = 0x06;
/// `UTF8String`
pub const UTF8_STRING: u8 = 0x0c;
/// `PrintableString`
pub const PRINTABLE_STRING: u8 = 0x13;
/// `UTCTime`
pub const UTC_TIME: u8 = 0x17;
/// `GeneralizedTime`
pub const GENERALIZED_TIME: u8 = 0x18;
/// `SEQUENCE`, with its constructed bit
pub const SEQUENCE: u8 = 0x30;
/// `SET`, with its constructed bit
pub const SET: u8 = 0x31;
/// A whole `NULL` element
pub const NULL: &[u8] = &[0x05, 0x00];

/// The tag of a context-specific field that wraps another.
pub const fn wrapped(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a context-specific field that holds its content itself.
pub const fn implicit(number: u8) -> u8 {
    0x80 | number
}

/// The bytes still to be read. Each reading method returns `None` for malformed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Der<'a>(pub &'a [u8]);

impl<'a> Der<'a> {
    /// Whether everything was read.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether an element with `tag` comes next.
    pub fn next_is(self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The next element, whatever it is: its tag and content.
    pub fn any(&mut self) -> Option<(u8, Der<'a>)> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, rest) = if first & 0x80 == 0 {
            (usize::from(*first), rest)
        } else {
            let width = usize::from(first & 0x7f);
            if !(1..=4).contains(&width) {
                return None;
            }
            let (bytes, rest) = rest.split_at_checked(width)?;
            let length =
                bytes.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
            let shortest = bytes[0] != 0 && length >= 0x80;
            (shortest.then_some(length)?, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, Der(content)))
    }

    /// The content of the next element, which must have `tag`.
    pub fn read(&mut self, tag: u8) -> Option<Der<'a>> {
        let mut ahead = *self;
        let (found, content) = ahead.any()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// Steps over the next element if it has `tag`; `None` is a malformed one.
    pub fn skip(&mut self, tag: u8) -> Option<()> {
        if self.next_is(tag) { self.read(tag).map(drop) } else { Some(()) }
    }

    /// Takes the next element if it has the tag `outer` and begins with one of the tag `inner`.
    pub fn wrapping(&mut self, outer: u8, inner: u8) -> Option<Der<'a>> {
        let mut ahead = *self;
        let content = ahead.read(outer).filter(|content| content.next_is(inner))?;
        *self = ahead;
        Some(content)
    }

    /// The bytes of the next element, header included, which must have `tag`.
    pub fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.read(tag)?;
        Some(&before[..before.len() - self.0.len()])
    }

    /// The bytes of an integer in two's complement, in their shortest form.
    pub fn integer(&mut self) -> Option<&'a [u8]> {
        let Der(bytes) = self.read(INTEGER)?;
        let shortest = match bytes {
            [] => false,
            [first, second, ..] => {
                !(*first == 0 && second & 0x80 == 0 || *first == 0xff && second & 0x80 != 0)
            }
            [_] => true,
        };
        shortest.then_some(bytes)
    }

    /// An integer above zero, without leading zeros.
    pub fn positive(&mut self) -> Option<&'a [u8]> {
        let bytes = self.integer()?;
        if bytes[0] & 0x80 != 0 {
            return None;
        }
        let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// An integer that fits 64 bits.
    pub fn small(&mut self) -> Option<i64> {
        let bytes = self.integer()?;
        let start = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        (bytes.len() <= 8)
            .then(|| bytes.iter().fold(start, |number, byte| number << 8 | i64::from(*byte)))
    }

    /// A truth value.
    pub fn boolean(&mut self) -> Option<bool> {
        match self.read(BOOLEAN)?.0 {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// The bytes of an object identifier, each part of which fits 31 bits.
    pub fn oid(&mut self) -> Option<&'a [u8]> {
        let Der(bytes) = self.read(OID)?;
        let ends_whole = bytes.last().is_some_and(|byte| byte & 0x80 == 0);
        let parts_fit = bytes.split_inclusive(|byte| byte & 0x80 == 0).all(|part| {
            part[0] != 0x80 && (part.len() < 5 || part.len() == 5 && part[0] & 0x7f < 8)
        });
        (ends_whole && parts_fit).then_some(bytes)
    }

    /// A string of bits: how many of the last byte are unused, and the bytes.
    pub fn bits(&mut self) -> Option<(u8, &'a [u8])> {
        let (unused, bytes) = self.read(BIT_STRING)?.0.split_first()?;
        let fits = match bytes.last() {
            None => *unused == 0,
            Some(last) => *unused < 8 && last & ((1 << unused) - 1) == 0,
        };
        fits.then_some((*unused, bytes))
    }
}

/// One element around these contents.
pub fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let length: usize = contents.iter().map(|content| content.len()).sum();
    let mut out = Vec::with_capacity(length + 6);
    out.push(tag);
    if length < 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "looked at in the line above")]
        out.push(length as u8);
    } else {
        let digits = length.to_be_bytes();
        let digits = strip_zeros(&digits);
        #[expect(clippy::cast_possible_truncation, reason = "a length has eight digits at most")]
        out.push(0x80 | digits.len() as u8);
        out.extend_from_slice(digits);
    }
    for content in contents {
        out.extend_from_slice(content);
    }
    out
}

/// A positive integer from its bytes, whatever zeros it begins with.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = strip_zeros(bytes);
    let sign: &[u8] = if bytes.first().is_none_or(|&byte| byte >= 0x80) { &[0] } else { &[] };
    element(INTEGER, &[sign, bytes])
}

/// A bit string of whole bytes.
pub fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes])
}

fn strip_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    &bytes[zeros..]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_written_reads_back_at_every_length() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1_0000] {
            let content = vec![7; length];
            let written = element(OCTET_STRING, &[&content]);
            let mut reader = Der(&written);
            assert_eq!(reader.read(OCTET_STRING).unwrap().0, content);
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn integers_are_positive_and_short() {
        assert_eq!(integer(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
    }

    #[test]
    fn a_torn_element_is_none() {
        for bytes in [
            &[0x30][..],
            &[0x30, 2, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x30, 0x80, 0],
            &[0x30, 0x81, 1, 0],
        ] {
            assert!(Der(bytes).any().is_none(), "{bytes:?}");
        }
    }
}
