//! Distinguished names.

use std::fmt;

use super::oid;
use crate::der::{self, Der};

/// A distinguished name, such as a certificate's subject.
///
/// Its `Display` is for people: `O=devs, CN=jane`, with everything that is not plain text escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name<'a> {
    /// The whole element: equal bytes are equal names.
    pub der: &'a [u8],
    attributes: Vec<(&'a [u8], String)>,
}

impl<'a> Name<'a> {
    /// Reads the next element as a name; `None` if it is malformed.
    pub fn read(input: &mut Der<'a>) -> Option<Self> {
        let whole = input.whole(der::SEQUENCE)?;
        let mut content = Der(whole).read(der::SEQUENCE)?;
        let mut attributes = Vec::new();
        while !content.is_empty() {
            let mut set = content.read(der::SET)?;
            while !set.is_empty() {
                let mut attribute = set.read(der::SEQUENCE)?;
                let kind = attribute.oid()?;
                let (tag, value) = attribute.any()?;
                attributes.push((kind, text(tag, value.0)?));
            }
        }
        Some(Self { der: whole, attributes })
    }

    /// The last common name, if there is one that is not empty.
    pub fn common_name(&self) -> Option<&str> {
        self.values(oid::COMMON_NAME).last().filter(|name| !name.is_empty())
    }

    /// The organizations, which Kubernetes takes for groups.
    pub fn organizations(&self) -> impl Iterator<Item = &str> {
        self.values(oid::ORGANIZATION)
    }

    fn values(&self, wanted: &'static [u8]) -> impl Iterator<Item = &str> {
        self.attributes
            .iter()
            .filter(move |(kind, _)| *kind == wanted)
            .map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, value)) in self.attributes.iter().enumerate() {
            let kind = match *kind {
                oid::COMMON_NAME => "CN",
                [0x55, 4, 6] => "C",
                [0x55, 4, 7] => "L",
                [0x55, 4, 8] => "ST",
                oid::ORGANIZATION => "O",
                [0x55, 4, 11] => "OU",
                _ => "?",
            };
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{kind}={}", value.escape_debug())?;
        }
        Ok(())
    }
}

fn text(tag: u8, bytes: &[u8]) -> Option<String> {
    let ascii = |fits: fn(u8) -> bool| {
        bytes.iter().all(|&byte| fits(byte)).then(|| bytes.iter().map(|&b| char::from(b)).collect())
    };
    match tag {
        // UTF8String
        0x0c => String::from_utf8(bytes.to_vec()).ok(),
        // NumericString
        0x12 => ascii(|byte| byte.is_ascii_digit() || byte == b' '),
        // PrintableString, with two characters that are common in it all the same
        0x13 => ascii(|byte| byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(&byte)),
        // T61String, which everybody takes for Latin-1
        0x14 => Some(bytes.iter().map(|&byte| char::from(byte)).collect()),
        // IA5String
        0x16 => ascii(|byte| byte.is_ascii()),
        // BMPString
        0x1e => {
            let bytes = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes);
            if !bytes.len().is_multiple_of(2) {
                return None;
            }
            let units =
                bytes.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
            units
                .map(|unit| match unit {
                    0xfdd0..=0xfdef | 0xfffe | 0xffff => None,
                    unit => char::from_u32(unit),
                })
                .collect()
        }
        _ => None,
    }
}
