//! What the server reads in a client's certificate: serial number, names and validity.
//!
//! Signatures and chains are the TLS library's business; this reads a certificate that it accepted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::{Date, Month, PrimitiveDateTime, Time};

use super::der::{
    COMMON_NAME, INTEGER, OBJECT, ORGANISATION, Reader, SEQUENCE, SET, UTC_TIME, VERSION,
};

/// The parts of a certificate that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) serial: u64,
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    pub(crate) from: SystemTime,
    pub(crate) until: SystemTime,
}

impl Certificate {
    /// Reads a certificate in DER. `None` when it is none, or lacks one of the parts.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let mut outer = Reader(Reader(der).take(SEQUENCE)?);
        let mut body = Reader(outer.take(SEQUENCE)?);
        body.skip(VERSION);
        let serial = number(body.take(INTEGER)?);
        body.take(SEQUENCE)?; // the algorithm
        body.take(SEQUENCE)?; // the issuer
        let mut validity = Reader(body.take(SEQUENCE)?);
        let from = moment(validity.next()?)?;
        // The last second counts as a whole.
        let until = moment(validity.next()?)? + Duration::from_millis(999);
        let mut certificate = Self { serial, name: String::new(), groups: Vec::new(), from, until };
        let mut subject = Reader(body.take(SEQUENCE)?);
        while let Some(set) = subject.take(SET) {
            let mut set = Reader(set);
            while let Some(attribute) = set.take(SEQUENCE) {
                let mut attribute = Reader(attribute);
                let kind = attribute.take(OBJECT)?;
                let text = std::str::from_utf8(attribute.next()?.1).ok()?;
                if kind == COMMON_NAME {
                    text.clone_into(&mut certificate.name);
                } else if kind == ORGANISATION {
                    certificate.groups.push(text.to_owned());
                }
            }
        }
        Some(certificate)
    }
}

/// The last eight bytes: the authority here counts its serial numbers from one.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn moment((tag, text): (u8, &[u8])) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = text.split_at_checked(if tag == UTC_TIME { 2 } else { 4 })?;
    let year: i32 = year.parse().ok()?;
    let year = match (tag, year) {
        (UTC_TIME, 50..) => 1900 + year,
        (UTC_TIME, _) => 2000 + year,
        _ => year,
    };
    let part = |index: usize| -> Option<u8> { rest.get(2 * index..2 * index + 2)?.parse().ok() };
    let date = Date::from_calendar_date(year, Month::try_from(part(0)?).ok()?, part(1)?).ok()?;
    let time = Time::from_hms(part(2)?, part(3)?, part(4)?).ok()?;
    let seconds = PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp();
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::authority::Authority;

    #[test]
    fn names_serial_and_validity_are_read_to_the_second() {
        let authority = Authority::new("test").unwrap();
        let from = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let until = UNIX_EPOCH + Duration::from_secs(2_600_000_001);
        let issued = authority
            .client("anna")
            .group("dev")
            .group("ops")
            .from(from)
            .until(until)
            .issue()
            .unwrap();
        let read = Certificate::read(issued.certificate()).unwrap();
        assert_eq!(read.name, "anna");
        assert_eq!(read.groups, ["dev", "ops"]);
        assert_eq!(read.serial, issued.serial());
        assert_eq!(read.from, from);
        assert_eq!(read.until, until + Duration::from_millis(999));
    }

    #[test]
    fn a_cut_certificate_is_none_at_every_length() {
        let authority = Authority::new("test").unwrap();
        let issued = authority.client("anna").issue().unwrap();
        let der = issued.certificate();
        for length in 0..der.len() {
            assert_eq!(Certificate::read(&der[..length]), None);
        }
    }
}
