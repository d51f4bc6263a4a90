//! The two forms in which ASN.1 writes a time.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

use crate::der::{self, Der};

/// Reads the next element as a time. Digits only: no field of a date has a sign.
pub(super) fn read(content: &mut Der<'_>) -> Option<Timestamp> {
    let (tag, Der(bytes)) = content.any()?;
    let text = std::str::from_utf8(bytes).ok()?;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, zone) = text.split_at(digits);
    let field = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i8>().ok();
    let (year, at) = match (tag, digits.len()) {
        // Seconds may be left out of the short form.
        (der::UTC_TIME, 10 | 12) => {
            let year = i16::from(field(0..2)?);
            (if year >= 50 { 1900 + year } else { 2000 + year }, 2)
        }
        (der::GENERALIZED_TIME, 14) => (digits.get(..4)?.parse().ok()?, 4),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(tag: u8, text: &str) -> Option<i64> {
        let element = der::element(tag, &[text.as_bytes()]);
        read(&mut Der(&element)).map(Timestamp::as_second)
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(seconds(der::UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(seconds(der::UTC_TIME, "7001010000Z"), Some(0));
        assert_eq!(seconds(der::UTC_TIME, "000229000000Z"), Some(951_782_400));
        assert_eq!(seconds(der::UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(seconds(der::UTC_TIME, "700101010000+0100"), Some(0));
        assert_eq!(seconds(der::GENERALIZED_TIME, "20500101000000Z"), Some(2_524_608_000));
    }

    #[test]
    fn never_is_the_last_moment_there_is() {
        let never = seconds(der::GENERALIZED_TIME, "99991231235959Z");
        assert_eq!(never, Some(Timestamp::MAX.as_second()));
    }

    #[test]
    fn a_sign_is_no_digit() {
        for text in ["+50101000000Z", "70+101000000Z", "7001010000-1Z", "700101+00000Z"] {
            assert_eq!(seconds(der::UTC_TIME, text), None, "{text}");
        }
        for text in ["+0500101000000Z", "+050101000000Z", "-0500101000000Z", "2050+101000000Z"] {
            assert_eq!(seconds(der::GENERALIZED_TIME, text), None, "{text}");
        }
    }

    #[test]
    fn other_shapes_are_rejected() {
        for text in ["701301000000Z", "700101240000Z", "700101000000", "700101000000+0000"] {
            assert_eq!(seconds(der::UTC_TIME, text), None, "{text}");
        }
        assert_eq!(seconds(der::UTF8_STRING, "700101000000Z"), None);
    }
}
