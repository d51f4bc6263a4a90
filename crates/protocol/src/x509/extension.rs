//! Extensions of a certificate.

use std::{collections::HashSet, net::IpAddr};

use super::{AlternativeName, oid};
use crate::{
    Url,
    der::{self, Der, implicit},
};

/// Checks the extensions that Go looks into and that certificates of clients and servers have, and
/// collects the names in them.
pub(super) fn read(mut list: Der<'_>) -> Option<Vec<AlternativeName<'_>>> {
    let mut names = Vec::new();
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
            oid::SUBJECT_ALTERNATIVE_NAME => {
                names = alternative_names(value.read(der::SEQUENCE)?)?;
            }
            _ => {}
        }
    }
    Some(names)
}

fn alternative_names(mut list: Der<'_>) -> Option<Vec<AlternativeName<'_>>> {
    let mut names = Vec::new();
    while !list.is_empty() {
        let (tag, Der(value)) = list.any()?;
        let ascii = || std::str::from_utf8(value).ok().filter(|text| text.is_ascii());
        match tag {
            // A mail address
            0x81 => drop(ascii()?),
            0x82 => names.push(AlternativeName::Dns(ascii()?)),
            // A URI
            0x86 => drop(ascii().filter(|text| Url::parse(text).is_ok())?),
            0x87 => names.push(AlternativeName::Ip(address(value)?)),
            _ => {}
        }
    }
    Some(names)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
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
        thread::spawn(move || send.send(super::read(Der(&list)).is_some()));
        let result = receive.recv_timeout(Duration::from_secs(60));
        assert_eq!(result, Ok(true), "each is another, and all are read");
    }
}
