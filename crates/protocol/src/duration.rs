//! Durations as Go writes and reads them: `1h30m`, `500ms`, `-1.5s`, `0`.

use std::{fmt::Write as _, time::Duration};

/// Reads a duration in nanoseconds exactly as Go's `time.ParseDuration` does.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = nanos(unit)?;
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?.checked_add(part(fraction, unit))?;
        if total > 1 << 63 {
            return None;
        }
        rest = after;
    }
    if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() }
}

/// Writes a duration as Go's `Duration.String` does: `1m30s`, `1.5s`, `0s`.
pub fn format(nanoseconds: i64) -> String {
    let mut out = String::new();
    if nanoseconds < 0 {
        out.push('-');
    }
    let total = nanoseconds.unsigned_abs();
    match total {
        0 => out.push_str("0s"),
        1..1_000 => _ = write!(out, "{total}ns"),
        1_000..1_000_000 => push(&mut out, total, 1_000, "µs"),
        1_000_000..1_000_000_000 => push(&mut out, total, 1_000_000, "ms"),
        _ => {
            let minutes = total / 60_000_000_000;
            if minutes >= 60 {
                _ = write!(out, "{}h", minutes / 60);
            }
            if minutes > 0 {
                _ = write!(out, "{}m", minutes % 60);
            }
            push(&mut out, total % 60_000_000_000, 1_000_000_000, "s");
        }
    }
    out
}

/// Reads a request timeout on a command line as kubectl does: a Go duration, or a bare number of seconds. Zero means
/// no limit.
pub fn timeout(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(Duration::from_secs(seconds)),
        _ => read(text),
    }
}

/// Reads a time limit on a command line. Zero is refused: neither "no limit" nor "at once" makes sense here.
pub fn budget(text: &str) -> Result<Duration, String> {
    match read(text)? {
        Duration::ZERO => Err("must not be zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Formats a duration for people, to the millisecond.
pub fn show(duration: Duration) -> String {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    format(millis.saturating_mul(1_000_000))
}

fn read(text: &str) -> Result<Duration, String> {
    let nanos = parse(text).ok_or_else(|| {
        if parse(&shrunk(text)).is_some() {
            "it is too long: the maximum is 2562047h"
        } else {
            "use a number with a unit, such as `30s`, `1m30s` or `500ms`"
        }
    })?;
    let nanos = u64::try_from(nanos).map_err(|_| "a duration cannot be negative here")?;
    Ok(Duration::from_nanos(nanos))
}

/// A duration with every number made small. If this parses, the original was too large.
fn shrunk(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_ascii_digit() {
            out.push(character);
        } else if !out.ends_with('1') {
            out.push('1');
        }
    }
    out
}

/// Appends `total` counted in `unit`, with the fraction that is left.
fn push(out: &mut String, total: u64, unit: u64, name: &str) {
    let (whole, rest) = (total / unit, total % unit);
    _ = write!(out, "{whole}");
    if rest > 0 {
        let width = unit.ilog10() as usize;
        _ = write!(out, ".{}", format!("{rest:0width$}").trim_end_matches('0'));
    }
    out.push_str(name);
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// A decimal fraction of a unit, cut off below a nanosecond.
fn part(fraction: &str, unit: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale = 1.0;
    for digit in fraction.bytes() {
        // Further digits are below what fits.
        let Some(next) = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')))
        else {
            break;
        };
        if next > i64::MAX.unsigned_abs() {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the reference computes it in floating point, and so it must come out the same"
    )]
    let part = (value as f64 * (unit as f64 / scale)) as u64;
    part
}

fn nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        let cases = [
            ("0", 0),
            ("+5s", 5_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-1.5ms", -1_500_000),
            ("3us", 3_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("-2562047h47m16.854775808s", i64::MIN),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in
            ["", "-", "3", "1d", ".s", "s", "1 s", "1h1", "9223372036854775808ns", "1S", "0.0"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_what_go_writes() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (43_200_000_000_000, "12h0m0s"),
            (-90_000_000_000, "-1m30s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(format(nanos), text);
            assert_eq!(parse(text), Some(nanos));
        }
    }

    #[test]
    fn a_request_timeout_may_be_bare_seconds_and_a_budget_may_not() {
        assert_eq!(timeout("5"), Ok(Duration::from_secs(5)));
        assert_eq!(timeout("0"), Ok(Duration::ZERO));
        assert_eq!(timeout("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(budget("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(budget("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["-5", "-5s", "", "soon", "5 s", "3000000h"] {
            assert!(timeout(wrong).is_err(), "{wrong}");
        }
        for wrong in ["5", "0", "0s", "-5s", ""] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_duration_that_is_too_long_is_not_told_to_have_a_unit() {
        for long in ["99999999999999h", "3000000h", "1h99999999999999999999s"] {
            assert!(budget(long).unwrap_err().contains("too long"), "{long}");
        }
        assert!(budget("99").unwrap_err().contains("unit"));
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for (millis, text) in [(1, "1ms"), (1_500, "1.5s"), (90_000, "1m30s"), (600_000, "10m0s")] {
            let duration = Duration::from_millis(millis) + Duration::from_nanos(7);
            assert_eq!(show(duration), text);
            assert_eq!(budget(text), Ok(Duration::from_millis(millis)));
        }
    }
}
