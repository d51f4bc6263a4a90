//! Durations on the command line, as Go writes them: `1m30s`, `500ms`, `1.5h`, `0`.

use std::time::Duration;

use keyward_protocol::duration;

/// Parses a request timeout as kubectl does: a Go duration, or a bare number of seconds. Zero means
/// no limit.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(seconds) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(Duration::from_secs(seconds)),
        _ => parse(text),
    }
}

/// Parses a time limit. Zero is refused: neither "no limit" nor "at once" makes sense here.
pub(crate) fn budget(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must not be zero".to_owned()),
        duration => Ok(duration),
    }
}

/// Formats a duration for people, to the millisecond.
pub(crate) fn show(duration: Duration) -> String {
    let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    duration::format(millis.saturating_mul(1_000_000))
}

fn parse(text: &str) -> Result<Duration, String> {
    let nanos = duration::parse(text).ok_or_else(|| {
        if duration::parse(&shrunk(text)).is_some() {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{budget, show, timeout};

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
