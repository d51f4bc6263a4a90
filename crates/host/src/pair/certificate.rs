//! The leaf certificate, as far as it is needed, and as strict as Go's `x509.ParseCertificate`.

use std::collections::HashSet;

use jiff::{Timestamp, civil::DateTime, tz::Offset};
use keyward_protocol::Url;

use super::{
    Public as Kind,
    der::{self, Der, implicit, wrapped},
    key::{Curve, Key, oid},
};

pub(super) struct Certificate {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    pub(super) common_name: Option<String>,
    public: Public,
    /// The content of the public key's bit string.
    pub(super) public_bits: Vec<u8>,
}

/// The public key of a certificate.
enum Public {
    Rsa { modulus: Vec<u8>, exponent: i64 },
    Ec { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
    Unknown,
}

impl Certificate {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut input = Der(bytes);
        let mut certificate = input.read(der::SEQUENCE)?;
        if !input.is_empty() {
            return None;
        }
        let mut body = certificate.read(der::SEQUENCE)?;
        let version = if body.next_is(wrapped(0)) { body.read(wrapped(0))?.small()? } else { 0 };
        if !(0..=2).contains(&version) {
            return None;
        }
        let serial = body.integer()?;
        if serial[0] & 0x80 != 0 {
            return None;
        }
        let signed_with = body.read(der::SEQUENCE)?;
        if certificate.read(der::SEQUENCE)? != signed_with {
            return None;
        }
        algorithm(signed_with)?;
        name(body.read(der::SEQUENCE)?)?;
        let mut validity = body.read(der::SEQUENCE)?;
        let (not_before, not_after) = (moment(&mut validity)?, moment(&mut validity)?);
        let common_name = Some(name(body.read(der::SEQUENCE)?)?).filter(|name| !name.is_empty());
        let spki = body.read(der::SEQUENCE)?;
        let public_bits = bits(spki)?.to_vec();
        let public = public(spki)?;
        if version >= 1 {
            body.skip(implicit(1))?;
            body.skip(implicit(2))?;
        }
        if version == 2 && body.next_is(wrapped(3)) {
            extensions(body.read(wrapped(3))?.read(der::SEQUENCE)?)?;
        }
        certificate.bits()?;
        Some(Self { not_before, not_after, common_name, public, public_bits })
    }

    /// The kind of its public key.
    pub(super) fn kind(&self) -> Kind {
        match &self.public {
            Public::Rsa { .. } => Kind::Rsa,
            Public::Ec { curve: Curve::P256, .. } => Kind::P256,
            Public::Ec { curve: Curve::P384, .. } => Kind::P384,
            Public::Ec { curve: Curve::P521, .. } => Kind::P521,
            Public::Ed25519(_) => Kind::Ed25519,
            Public::Ec { curve: Curve::P224, .. } | Public::Unknown => Kind::Other,
        }
    }

    /// Whether `key` is the one of this certificate.
    pub(super) fn check_key(&self, key: &Key) -> Result<(), &'static str> {
        let same = match (&self.public, key) {
            (
                Public::Rsa { modulus, exponent },
                Key::Rsa { modulus: own, exponent: own_exponent },
            ) => modulus == own && exponent == own_exponent,
            (Public::Ec { curve, point }, Key::Ec { curve: own, point: own_point }) => {
                curve == own && point == own_point
            }
            (Public::Ed25519(public), Key::Ed25519(own)) => public == own,
            (Public::Unknown, _) => {
                return Err("the certificate is for a kind of key that is not supported");
            }
            _ => return Err("the private key is of another kind than the certificate's"),
        };
        if same { Ok(()) } else { Err("the private key is not the certificate's") }
    }
}

/// An algorithm and the bytes of its parameters.
fn algorithm(mut content: Der<'_>) -> Option<(&[u8], &[u8])> {
    let name = content.oid()?;
    let parameters = content.0;
    if !content.is_empty() {
        content.any()?;
    }
    Some((name, &parameters[..parameters.len() - content.0.len()]))
}

/// Checks a name; returns its last common name, empty when there is none.
fn name(mut content: Der<'_>) -> Option<String> {
    let mut common_name = String::new();
    while !content.is_empty() {
        let mut set = content.read(der::SET)?;
        while !set.is_empty() {
            let mut attribute = set.read(der::SEQUENCE)?;
            let kind = attribute.oid()?;
            let (tag, value) = attribute.any()?;
            let text = text(tag, value.0)?;
            if kind == oid::COMMON_NAME {
                common_name = text;
            }
        }
    }
    Some(common_name)
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

/// A time in either of the two forms that ASN.1 has.
fn moment(content: &mut Der<'_>) -> Option<Timestamp> {
    let (tag, Der(bytes)) = content.any()?;
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, zone) = text.split_at(digits);
    let field = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i8>().ok();
    let (year, at) = match (tag, digits.len()) {
        // Seconds may be left out of the short form.
        (0x17, 10 | 12) => {
            let year = i16::from(field(0..2)?);
            (if year >= 50 { 1900 + year } else { 2000 + year }, 2)
        }
        (0x18, 14) => (digits.get(..4)?.parse().ok()?, 4),
        _ => return None,
    };
    let second = if digits.len() == at + 8 { 0 } else { field(at + 8..at + 10)? };
    let time = DateTime::new(
        year,
        field(at..at + 2)?,
        field(at + 2..at + 4)?,
        field(at + 4..at + 6)?,
        field(at + 6..at + 8)?,
        second,
        0,
    )
    .ok()?;
    // `9999-12-31T23:59:59Z` is how certificates spell "never".
    let time = Offset::UTC.to_timestamp(time).unwrap_or(Timestamp::MAX);
    time.saturating_sub(jiff::SignedDuration::from_secs(zone_offset(zone)?)).ok()
}

/// `Z` or `±hhmm`, in seconds east; an offset of nothing must be spelt `Z`.
fn zone_offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = zone.get(1..).filter(|d| d.len() == 4 && d.bytes().all(|b| b.is_ascii_digit()))?;
    let (hours, minutes): (i64, i64) = (digits[..2].parse().ok()?, digits[2..].parse().ok()?);
    let offset = (hours * 60 + minutes) * 60;
    (hours <= 24 && minutes < 60 && offset != 0).then_some(sign * offset)
}

/// The bit string of a public key.
fn bits(mut content: Der<'_>) -> Option<&[u8]> {
    content.read(der::SEQUENCE)?;
    content.bits().map(|(_, bits)| bits)
}

fn public(mut content: Der<'_>) -> Option<Public> {
    let (kind, parameters) = algorithm(content.read(der::SEQUENCE)?)?;
    let (unused, bits) = content.bits()?;
    if unused != 0 && [oid::RSA, oid::EC, oid::ED25519].contains(&kind) {
        return None;
    }
    Some(match kind {
        oid::RSA => {
            let mut key = Der(bits).read(der::SEQUENCE)?;
            let modulus = key.positive()?.to_vec();
            let exponent = key.small()?;
            if parameters != [5, 0] || exponent <= 0 {
                return None;
            }
            Public::Rsa { modulus, exponent }
        }
        oid::EC => {
            let curve = Curve::named(Der(parameters).oid()?).filter(|curve| curve.has(bits))?;
            Public::Ec { curve, point: bits.to_vec() }
        }
        oid::ED25519 if parameters.is_empty() && bits.len() == 32 => Public::Ed25519(bits.to_vec()),
        oid::ED25519 => return None,
        _ => Public::Unknown,
    })
}

/// Checks the extensions that the reference looks into and that certificates of clients have.
fn extensions(mut list: Der<'_>) -> Option<()> {
    let mut seen = HashSet::new();
    while !list.is_empty() {
        let mut extension = list.read(der::SEQUENCE)?;
        let kind = extension.oid()?;
        let critical = extension.next_is(der::BOOLEAN) && extension.boolean()?;
        let mut value = extension.read(der::OCTET_STRING)?;
        if !seen.insert(kind) {
            return None;
        }
        match kind {
            oid::KEY_USAGE => {
                value.bits()?;
            }
            oid::BASIC_CONSTRAINTS => {
                let mut content = value.read(der::SEQUENCE)?;
                if content.next_is(der::BOOLEAN) {
                    content.boolean()?;
                }
                if content.next_is(der::INTEGER) {
                    content.small().filter(|length| *length >= 0)?;
                }
            }
            oid::EXTENDED_KEY_USAGE => {
                let mut content = value.read(der::SEQUENCE)?;
                while !content.is_empty() {
                    content.oid()?;
                }
            }
            oid::SUBJECT_KEY_IDENTIFIER => {
                value.read(der::OCTET_STRING).filter(|_| !critical)?;
            }
            oid::AUTHORITY_KEY_IDENTIFIER => {
                let mut content = value.read(der::SEQUENCE).filter(|_| !critical)?;
                content.skip(implicit(0))?;
            }
            oid::SUBJECT_ALTERNATIVE_NAME => alternative_names(value.read(der::SEQUENCE)?)?,
            _ => {}
        }
    }
    Some(())
}

fn alternative_names(mut list: Der<'_>) -> Option<()> {
    while !list.is_empty() {
        let (tag, Der(value)) = list.any()?;
        let fits = match tag {
            // A mail address, a host name
            0x81 | 0x82 => value.is_ascii(),
            // A URI
            0x86 => std::str::from_utf8(value)
                .is_ok_and(|text| text.is_ascii() && Url::parse(text).is_ok()),
            // An IP address
            0x87 => matches!(value.len(), 4 | 16),
            _ => true,
        };
        if !fits {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;

    #[test]
    fn a_certificate_of_very_many_extensions_is_no_work() {
        let mut list = Vec::new();
        for number in 0..200_000_u32 {
            let [a, b, c] = [14, 7, 0].map(|shift| (number >> shift).to_le_bytes()[0] & 0x7f);
            list.extend([0x30, 8, der::OID, 4, 0x2a, a, b, c, der::OCTET_STRING, 0]);
        }
        let (send, receive) = mpsc::channel();
        thread::spawn(move || send.send(extensions(Der(&list))));
        let result = receive.recv_timeout(Duration::from_secs(60));
        assert_eq!(result, Ok(Some(())), "each is another, and all are read");
    }
}
