//! As much DER as certificates and keys need, with the strictness of Go's readers: single-byte
//! tags and minimal lengths, but what follows the last known field of a sequence is let be.

/// What is still to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of a context-specific field that wraps another.
pub(super) const fn wrapped(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a context-specific field that holds its content itself.
pub(super) const fn implicit(number: u8) -> u8 {
    0x80 | number
}

impl<'a> Der<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Whether an element with `tag` comes next.
    pub(super) fn next_is(self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// The next element, whatever it is: its tag and content.
    pub(super) fn any(&mut self) -> Option<(u8, Der<'a>)> {
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
    pub(super) fn read(&mut self, tag: u8) -> Option<Der<'a>> {
        let mut ahead = *self;
        let (found, content) = ahead.any()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// Steps over the next element if it has `tag`; `None` is a malformed one.
    pub(super) fn skip(&mut self, tag: u8) -> Option<()> {
        if self.next_is(tag) { self.read(tag).map(drop) } else { Some(()) }
    }

    /// Takes the next element if it has the tag `outer` and begins with one of the tag `inner`.
    pub(super) fn wrapping(&mut self, outer: u8, inner: u8) -> Option<Der<'a>> {
        let mut ahead = *self;
        let content = ahead.read(outer).filter(|content| content.next_is(inner))?;
        *self = ahead;
        Some(content)
    }

    /// The bytes of the next element, header included.
    pub(super) fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.read(tag)?;
        Some(&before[..before.len() - self.0.len()])
    }

    /// The bytes of an integer in two's complement, in their shortest form.
    pub(super) fn integer(&mut self) -> Option<&'a [u8]> {
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
    pub(super) fn positive(&mut self) -> Option<&'a [u8]> {
        let bytes = self.integer()?;
        if bytes[0] & 0x80 != 0 {
            return None;
        }
        let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// An integer that fits 64 bits.
    pub(super) fn small(&mut self) -> Option<i64> {
        let bytes = self.integer()?;
        let start = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        (bytes.len() <= 8)
            .then(|| bytes.iter().fold(start, |number, byte| number << 8 | i64::from(*byte)))
    }

    pub(super) fn boolean(&mut self) -> Option<bool> {
        match self.read(BOOLEAN)?.0 {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// The bytes of an object identifier, each part of which fits 31 bits.
    pub(super) fn oid(&mut self) -> Option<&'a [u8]> {
        let Der(bytes) = self.read(OID)?;
        let ends_whole = bytes.last().is_some_and(|byte| byte & 0x80 == 0);
        let parts_fit = bytes.split_inclusive(|byte| byte & 0x80 == 0).all(|part| {
            part[0] != 0x80 && (part.len() < 5 || part.len() == 5 && part[0] & 0x7f < 8)
        });
        (ends_whole && parts_fit).then_some(bytes)
    }

    /// A string of bits: how many of the last byte are unused, and the bytes.
    pub(super) fn bits(&mut self) -> Option<(u8, &'a [u8])> {
        let (unused, bytes) = self.read(BIT_STRING)?.0.split_first()?;
        let fits = match bytes.last() {
            None => *unused == 0,
            Some(last) => *unused < 8 && last & ((1 << unused) - 1) == 0,
        };
        fits.then_some((*unused, bytes))
    }
}
