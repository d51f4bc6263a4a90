//! Expiry times, for all times and texts that there can be.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use jiff::{SignedDuration, Timestamp, tz::Offset};
use keyward_protocol::{
    exec::{Answer, AnswerError, Detail, Version},
    time::{format_rfc3339, parse_rfc3339},
};
use proptest::prelude::*;

/// Seconds of the years 0 to 9998, which every offset leaves within what there is.
const SECONDS: std::ops::Range<i64> = -62_167_219_200..253_370_764_800;

fn read(expiry: &str) -> Result<Option<Timestamp>, AnswerError> {
    let stdout = format!(
        "{{\"apiVersion\":\"{}\",\"status\":{{\"token\":\"x\",\"expirationTimestamp\":{expiry:?}}}}}",
        Version::V1.api_version()
    );
    Answer::read(stdout.as_bytes(), Version::V1).map(|answer| answer.expires)
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(seconds in SECONDS) {
        let time = Timestamp::from_second(seconds).unwrap();
        prop_assert_eq!(parse_rfc3339(&format_rfc3339(time)), Some(time));
    }

    #[test]
    fn an_offset_shifts_and_a_fraction_adds(
        seconds in SECONDS,
        nanos in 0..1_000_000_000_i64,
        more_digits in "[0-9]{0,5}",
        separator in "[.,]",
        negative: bool,
        hours in 0..=24_i64,
        minutes in 0..=60_i64,
    ) {
        let local = Timestamp::from_second(seconds).unwrap();
        let written = Offset::UTC.to_datetime(local).strftime("%Y-%m-%dT%H:%M:%S").to_string();
        let sign = if negative { '-' } else { '+' };
        let text =
            format!("{written}{separator}{nanos:09}{more_digits}{sign}{hours:02}:{minutes:02}");
        let east = (hours * 60 + minutes) * 60 * if negative { -1 } else { 1 };
        let expected =
            local + SignedDuration::from_nanos(nanos) - SignedDuration::from_secs(east);
        prop_assert_eq!(parse_rfc3339(&text), Some(expected));
    }

    #[test]
    fn an_answer_expires_when_it_says_or_is_refused_for_it(text in "[0-9TZtz:.,+ -]{0,30}") {
        match (parse_rfc3339(&text), read(&text)) {
            (Some(time), Ok(expires)) => prop_assert_eq!(expires, Some(time)),
            (None, Err(AnswerError::Decode { detail, .. })) => {
                prop_assert_eq!(detail, Detail::Timestamp);
            }
            (parsed, read) => prop_assert!(false, "{:?} but {:?}", parsed, read),
        }
    }

    #[test]
    fn one_wrong_character_is_noticed_or_makes_another_time(
        seconds in SECONDS,
        at in 0..20_usize,
        character in "[ -~]",
    ) {
        let time = Timestamp::from_second(seconds).unwrap();
        let good = format_rfc3339(time);
        let mut text = good.clone();
        text.replace_range(at..=at, &character);
        if text != good {
            prop_assert_ne!(parse_rfc3339(&text), Some(time));
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse_rfc3339(&text);
        let _ = Answer::read(text.as_bytes(), Version::V1);
    }
}
