//! Times as the reference reads and writes them.

use jiff::{SignedDuration, Timestamp, civil::Date, tz::Offset};

/// Reads RFC 3339 exactly as Go's `time.Parse(time.RFC3339, …)` does (OD-20): an hour of one digit,
/// a comma before the fraction and offsets up to `24:60` are fine; lower case, leap seconds and
/// hour 24 are not. Digits beyond nanoseconds are cut off.
///
/// What lies beyond the last moment that [`Timestamp`] knows, in the last hours of the year 9999,
/// is taken for that moment.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4)?;
    rest.expect(b'-')?;
    let month = rest.number(2)?;
    rest.expect(b'-')?;
    let day = rest.number(2)?;
    rest.expect(b'T')?;
    let time = rest.clock(|rest| rest.number(2))?;
    let offset = rest.offset()?;
    if !rest.0.is_empty() {
        return None;
    }
    moment(date(year, month, day)?, time, offset)
}

/// Succeeds if go-yaml accepts `text` for an explicit `!!timestamp`: RFC 3339 with short fields, or
/// separated by a space and without zone, or a date alone.
pub(crate) fn check_yaml_timestamp(text: &str) -> Option<()> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4)?;
    rest.expect(b'-')?;
    let month = rest.short()?;
    rest.expect(b'-')?;
    let day = rest.short()?;
    date(year, month, day)?;
    match rest.0.first() {
        None => return Some(()),
        Some(b'T' | b't') => {
            rest.0 = &rest.0[1..];
            rest.clock(Rest::short)?;
            rest.offset()?;
        }
        Some(b' ') => {
            // A space in the pattern stands for any number of them.
            while let Some(after) = rest.0.strip_prefix(b" ") {
                rest.0 = after;
            }
            rest.clock(Rest::short)?;
        }
        Some(_) => return None,
    }
    rest.0.is_empty().then_some(())
}

/// Writes seconds precision in UTC with `Z`, as Kubernetes' `metav1.Time` does. RFC 3339 has no
/// years before 0; such a time is written as the first moment it has.
pub fn format_rfc3339(time: Timestamp) -> String {
    let first = Timestamp::constant(-62_167_219_200, 0);
    time.max(first).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The whole second that `time` lies in, counted from 1970 as Go's `Unix` counts: half a second
/// before 1970 lies in second -1.
pub fn whole_second(time: Timestamp) -> i64 {
    time.as_second() - i64::from(time.subsec_nanosecond() < 0)
}

/// Nanoseconds since midnight.
type Clock = i64;

fn date(year: i64, month: i64, day: i64) -> Option<Date> {
    let (year, month, day) = (year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
    Date::new(year, month, day).ok()
}

fn moment(date: Date, clock: Clock, offset: i64) -> Option<Timestamp> {
    let Ok(midnight) = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)) else {
        // Only the last day of 9999 is a date but not a timestamp.
        return Some(Timestamp::MAX);
    };
    let since = SignedDuration::from_nanos(clock) - SignedDuration::from_secs(offset);
    midnight.saturating_add(since).ok()
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn expect(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Exactly `width` digits.
    fn number(&mut self, width: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(width)?;
        let number = digits.iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0'))
        })?;
        self.0 = rest;
        Some(number)
    }

    /// One or two digits.
    fn short(&mut self) -> Option<i64> {
        self.number(2).or_else(|| self.number(1))
    }

    /// `15:04:05` and a fraction. The hour may have one digit only; `digits` reads the others.
    fn clock(&mut self, digits: fn(&mut Self) -> Option<i64>) -> Option<Clock> {
        let hour = self.short()?;
        self.expect(b':')?;
        let minute = digits(self)?;
        self.expect(b':')?;
        let second = digits(self)?;
        if hour >= 24 || minute >= 60 || second >= 60 {
            return None;
        }
        let nanos = self.fraction();
        Some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos)
    }

    /// A point or comma with at least one digit after it; else nothing is read.
    fn fraction(&mut self) -> i64 {
        let Some((b'.' | b',', digits)) = self.0.split_first() else {
            return 0;
        };
        let width = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        if width == 0 {
            return 0;
        }
        self.0 = &digits[width..];
        (0..9).fold(0, |nanos, index| {
            let digit = digits[..width].get(index).map_or(0, |b| b - b'0');
            nanos * 10 + i64::from(digit)
        })
    }

    /// `Z` or `±hh:mm`, in seconds east.
    fn offset(&mut self) -> Option<i64> {
        let (&sign, rest) = self.0.split_first()?;
        self.0 = rest;
        let sign = match sign {
            b'Z' => return Some(0),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hour = self.number(2)?;
        self.expect(b':')?;
        let minute = self.number(2)?;
        (hour <= 24 && minute <= 60).then_some(sign * (hour * 60 + minute) * 60)
    }
}
