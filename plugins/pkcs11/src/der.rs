//! As much of ASN.1 DER as keys, certificates and requests need.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: &[u8] = &[0x05, 0x00];
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// `[0]`, constructed.
pub(crate) const FIRST: u8 = 0xa0;

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next element: its tag, its content, and all of it.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (&tag, &first) = (self.0.first()?, self.0.get(1)?);
        let (length, header) = match first {
            0..=0x7f => (usize::from(first), 2),
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let digits = self.0.get(2..2 + count)?;
                let fold = |sum, &digit| (sum << 8) | usize::from(digit);
                (digits.iter().fold(0, fold), 2 + count)
            }
            _ => return None,
        };
        let end = header.checked_add(length)?;
        let whole = self.0.get(..end)?;
        self.0 = &self.0[end..];
        Some((tag, &whole[header..], whole))
    }

    /// The content of the next element, if it has this tag.
    pub(crate) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (found, content, _) = ahead.any()?;
        (found == tag).then(|| {
            *self = ahead;
            content
        })
    }

    /// The next element with its header, if it has this tag.
    pub(crate) fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        self.read(tag)?;
        Some(&before[..before.len() - self.0.len()])
    }

    /// The content of a bit string of whole bytes.
    pub(crate) fn bits(&mut self) -> Option<&'a [u8]> {
        match self.read(BIT_STRING)?.split_first()? {
            (0, bits) => Some(bits),
            _ => None,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// One element around these contents.
pub(crate) fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
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
pub(crate) fn integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = strip_zeros(bytes);
    let sign: &[u8] = if bytes.first().is_none_or(|&byte| byte >= 0x80) { &[0] } else { &[] };
    element(INTEGER, &[sign, bytes])
}

/// A bit string of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Vec<u8> {
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
            let mut reader = Reader(&written);
            assert_eq!(reader.read(OCTET_STRING).unwrap(), content);
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
        assert!(Reader(&[0x30]).any().is_none());
        assert!(Reader(&[0x30, 2, 0]).any().is_none());
        assert!(Reader(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0]).any().is_none());
        assert!(Reader(&[0x30, 0x80, 0]).any().is_none());
    }
}
