//! The serial number, names and validity of a client's certificate.
//!
//! The TLS library checks signatures and chains; this reads a certificate that it accepted.

use std::time::{Duration, SystemTime};

use keyward_protocol::x509;

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
    /// Parses a certificate in DER. `None` if it is invalid or lacks one of the parts.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let read = x509::Certificate::parse(der)?;
        Some(Self {
            serial: number(read.serial),
            name: read.subject.common_name().unwrap_or_default().to_owned(),
            groups: read.subject.organizations().map(str::to_owned).collect(),
            from: read.not_before.into(),
            // The whole last second is valid.
            until: SystemTime::from(read.not_after) + Duration::from_millis(999),
        })
    }
}

/// The last eight bytes: the authority here counts its serial numbers from one.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::UNIX_EPOCH;

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
