//! What we need to know of a certificate.

use std::fmt::Write as _;

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::{
    der::{self, Reader},
    public::Public,
};

/// The parts of a certificate that decide whether and with what it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// All of it.
    pub(crate) der: Vec<u8>,
    /// The name of its issuer, in DER.
    pub(crate) issuer: Vec<u8>,
    /// The name it was made for, in DER.
    pub(crate) subject: Vec<u8>,
    /// The number its issuer gave it, in DER.
    pub(crate) serial: Vec<u8>,
    /// The key it was made for.
    pub(crate) public: Public,
    /// From when it holds.
    pub(crate) from: Timestamp,
    /// Until when it holds.
    pub(crate) until: Timestamp,
}

impl Certificate {
    /// `None` when it cannot be read, or is for a kind of key that we do not know.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut outer = Reader(bytes);
        // Some modules pad the value to the length of the card's file.
        let der = outer.whole(der::SEQUENCE)?;
        let mut certificate = Reader(Reader(der).read(der::SEQUENCE)?);
        let mut body = Reader(certificate.read(der::SEQUENCE)?);
        body.read(der::FIRST);
        let serial = body.whole(der::INTEGER)?;
        body.read(der::SEQUENCE)?;
        let issuer = body.whole(der::SEQUENCE)?;
        let mut validity = Reader(body.read(der::SEQUENCE)?);
        let (from, until) = (moment(&mut validity)?, moment(&mut validity)?);
        let subject = body.whole(der::SEQUENCE)?;
        let public = Public::parse(body.whole(der::SEQUENCE)?)?;
        Some(Self {
            der: der.to_vec(),
            issuer: issuer.to_vec(),
            subject: subject.to_vec(),
            serial: serial.to_vec(),
            public,
            from,
            until,
        })
    }

    /// Whether it is its own issuer: a root, which nobody needs to be sent.
    pub(crate) fn is_root(&self) -> bool {
        self.issuer == self.subject
    }

    /// Whether it holds at this moment.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        self.from <= now && now <= self.until
    }

    /// The subject for people, as in `O=devs, CN=jane`.
    pub(crate) fn subject_text(&self) -> String {
        name_text(&self.subject).unwrap_or_else(|| "?".to_owned())
    }
}

fn name_text(name: &[u8]) -> Option<String> {
    let mut out = String::new();
    let mut sets = Reader(Reader(name).read(der::SEQUENCE)?);
    while !sets.is_empty() {
        let mut set = Reader(sets.read(der::SET)?);
        while !set.is_empty() {
            let mut attribute = Reader(set.read(der::SEQUENCE)?);
            let kind = match attribute.read(der::OID)? {
                [0x55, 4, 3] => "CN",
                [0x55, 4, 6] => "C",
                [0x55, 4, 7] => "L",
                [0x55, 4, 8] => "ST",
                [0x55, 4, 10] => "O",
                [0x55, 4, 11] => "OU",
                _ => "?",
            };
            let (_, value, _) = attribute.any()?;
            let separator = if out.is_empty() { "" } else { ", " };
            // Names are for the screen: whatever is not plain text is shown as such.
            let value = String::from_utf8_lossy(value);
            write!(out, "{separator}{kind}={}", value.escape_debug()).ok()?;
        }
    }
    Some(out)
}

/// A time in either of the two forms of RFC 5280, which both end in `Z`.
fn moment(content: &mut Reader<'_>) -> Option<Timestamp> {
    let (tag, text, _) = content.any()?;
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match tag {
        0x17 if digits.len() == 12 => {
            let year: i16 = digits.get(..2)?.parse().ok()?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, &digits[2..])
        }
        0x18 if digits.len() == 14 => (digits.get(..4)?.parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let field = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let time = DateTime::new(year, field(0)?, field(2)?, field(4)?, field(6)?, field(8)?, 0);
    // `99991231235959Z` is how certificates spell "never".
    Some(Offset::UTC.to_timestamp(time.ok()?).unwrap_or(Timestamp::MAX))
}

/// The certificates in a file: PEM, or one in DER.
pub(crate) fn from_file(bytes: &[u8]) -> Option<Vec<Certificate>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    if bytes.first() == Some(&der::SEQUENCE) {
        return Some(vec![Certificate::parse(bytes)?]);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let found: Vec<_> = blocks
        .map(|block| {
            let (body, _) = block.split_once("-----END CERTIFICATE-----")?;
            let packed: String = body.split_whitespace().collect();
            Certificate::parse(&STANDARD.decode(packed).ok()?)
        })
        .collect::<Option<_>>()?;
    (!found.is_empty()).then_some(found)
}
