//! Durations as Go writes them: `1m30s`, `500ms`, `1.5h`, `0`.

use std::time::Duration;

/// A request timeout as kubectl reads it: a Go duration, or a bare number of seconds. Zero is no
/// limit.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(Duration::from_secs(seconds)),
        _ => parse(text),
    }
}

/// A time budget that must not be zero: a plugin without any limit is what we are here to avoid.
pub(crate) fn budget(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("a plugin needs some time".to_owned()),
        duration => Ok(duration),
    }
}

/// Writes a duration the way Go reads it, in the fewest units that are exact to the millisecond.
pub(crate) fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let (hours, minutes, rest) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
    let mut text = String::new();
    if hours > 0 {
        text += &format!("{hours}h");
    }
    if minutes > 0 {
        text += &format!("{minutes}m");
    }
    if rest > 0 {
        let fraction = format!("{:03}", rest % 1000);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        text += &format!("{}{point}{fraction}s", rest / 1000);
    }
    text
}

/// Go's `time.ParseDuration`, without negative values, which mean nothing here.
fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "say a number with a unit, such as `30s`, `1m30s` or `500ms`".to_owned();
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.starts_with('-') {
        return Err("a duration cannot be negative here".to_owned());
    }
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(wrong());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let scale = unit_nanos(unit).ok_or_else(wrong)?;
        nanos = amount(whole, fraction, scale)
            .and_then(|n| nanos.checked_add(n))
            .filter(|n| *n <= i64::MAX as u128)
            .ok_or("the duration is too long")?;
        rest = after;
    }
    let nanos = u64::try_from(nanos).map_err(|_| "the duration is too long")?;
    Ok(Duration::from_nanos(nanos))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter, as Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `whole.fraction` times `scale`, cut to whole nanoseconds.
fn amount(whole: &str, fraction: &str, scale: u128) -> Option<u128> {
    let digits = |text: &str| match text {
        "" => Some(0),
        text => text.parse::<u128>().ok(),
    };
    // No unit is finer than 10^-13 of an hour's nanoseconds, so further digits add nothing.
    let fraction = &fraction[..fraction.len().min(14)];
    let part =
        digits(fraction)?.checked_mul(scale)? / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    digits(whole)?.checked_mul(scale)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{budget, parse, show, timeout};

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("1.s", 1_000),
            ("+2m", 120_000),
            ("1h1m1s1ms", 3_661_001),
            ("1500us", 1),
            ("1500µs", 1),
            ("0.3333333333333333333h", 1_199_999),
        ] {
            let read = parse(text).map(|d| d.as_millis());
            assert_eq!(read, Ok(millis), "{text}");
        }
        for wrong in ["", "30", "s", ".s", "1d", "1 s", "-1s", "+", "1s ", "3000000h", "１s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_timeout_may_be_bare_seconds_and_a_budget_may_not() {
        assert_eq!(timeout("5"), Ok(Duration::from_secs(5)));
        assert_eq!(timeout("0"), Ok(Duration::ZERO));
        assert_eq!(timeout("2m"), Ok(Duration::from_secs(120)));
        assert!(timeout("-5").is_err());
        assert!(budget("5").is_err());
        assert!(budget("0").is_err());
        assert_eq!(budget("5s"), Ok(Duration::from_secs(5)));
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for (millis, text) in [
            (0, "0ms"),
            (500, "500ms"),
            (1_500, "1.5s"),
            (60_000, "1m"),
            (90_000, "1m30s"),
            (600_000, "10m"),
            (3_661_001, "1h1m1.001s"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(show(duration), text);
            assert_eq!(parse(text), Ok(duration));
        }
    }
}
