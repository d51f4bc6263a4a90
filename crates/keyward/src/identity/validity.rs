//! The dates of a certificate: just enough DER to find them.

use rustls::{CertificateError, Error as TlsError, pki_types::UnixTime};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// From when until when a certificate is good, in seconds since 1970, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    not_before: i64,
    not_after: i64,
}

impl Validity {
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = expect(certificate, SEQUENCE)?;
        let (mut rest, _) = expect(certificate, SEQUENCE)?;
        if rest.first() == Some(&VERSION) {
            rest = element(rest)?.2;
        }
        // Serial number, signature algorithm, issuer.
        for _ in 0..3 {
            rest = element(rest)?.2;
        }
        let (dates, _) = expect(rest, SEQUENCE)?;
        let (tag, not_before, rest) = element(dates)?;
        let not_before = seconds(tag, not_before)?;
        let (tag, not_after, _) = element(rest)?;
        Some(Self { not_before, not_after: seconds(tag, not_after)? })
    }

    pub(super) fn check(self, now: UnixTime) -> Result<(), TlsError> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < self.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > self.not_after {
            return Err(CertificateError::Expired.into());
        }
        Ok(())
    }
}

fn expect(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(input)?;
    (found == tag).then_some((content, rest))
}

/// One element: its tag, its content, and what follows it.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, input) = input.split_first()?;
    let (&first, input) = input.split_first()?;
    let (length, input) = match first {
        0..=0x7f => (usize::from(first), input),
        0x81..=0x84 => {
            let (bytes, input) = input.split_at_checked(usize::from(first & 0x7f))?;
            let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, input)
        }
        _ => return None,
    };
    let (content, rest) = input.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn seconds(tag: u8, text: &[u8]) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        text.get(range)?.iter().try_fold(0, |sum, byte| {
            byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, at) = match tag {
        // Two digits: RFC 5280 has 50 to 99 in the last century.
        UTC_TIME => match number(0..2)? {
            year @ 0..=49 => (2000 + year, 2),
            year => (1900 + year, 2),
        },
        GENERALIZED_TIME => (number(0..4)?, 4),
        _ => return None,
    };
    if text.get(at + 10..) != Some(b"Z") {
        return None;
    }
    let [month, day, hour, minute, second] =
        [0, 2, 4, 6, 8].map(|place| number(at + place..at + place + 2));
    let days = days_since_1970(year, month?, day?)?;
    Some(((days * 24 + hour?) * 60 + minute?) * 60 + second?)
}

/// Days in the proleptic Gregorian calendar, counted in years that begin in March so that the leap
/// day comes last.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let in_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(year * 365 + leap_days + in_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(seconds(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(seconds(UTC_TIME, b"000229000000Z"), Some(951_782_400));
        assert_eq!(seconds(UTC_TIME, b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(GENERALIZED_TIME, b"20500101000000Z"), Some(2_524_608_000));
        assert_eq!(seconds(GENERALIZED_TIME, b"99991231235959Z"), Some(253_402_300_799));
    }

    #[test]
    fn times_of_another_shape_are_refused() {
        assert_eq!(seconds(UTC_TIME, b"700101000000+0100"), None);
        assert_eq!(seconds(UTC_TIME, b"7001010000Z"), None);
        assert_eq!(seconds(UTC_TIME, b"701301000000Z"), None);
        assert_eq!(seconds(0x0c, b"700101000000Z"), None);
    }

    #[test]
    fn lengths_beyond_the_input_are_refused() {
        assert_eq!(Validity::of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(Validity::of(&[]), None);
    }
}
