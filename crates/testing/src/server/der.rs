//! The little DER that the server reads.

pub(crate) const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
pub(crate) const ORGANISATION: &[u8] = &[0x55, 0x04, 0x0a];

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const VERSION: u8 = 0xa0;

/// Walks over the values of a DER sequence.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next value if it has this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() != Some(&tag) {
            return None;
        }
        self.next().map(|(_, value)| value)
    }

    /// Leaves out the next value if it has this tag.
    pub(crate) fn skip(&mut self, tag: u8) {
        self.take(tag);
    }

    /// The next value with its tag.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let (digits, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            if digits.len() > 4 {
                return None;
            }
            length = digits.iter().fold(0, |value, byte| (value << 8) | usize::from(*byte));
            rest = after;
        }
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, value))
    }
}
