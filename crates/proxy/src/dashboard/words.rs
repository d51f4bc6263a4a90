//! Times and values in words.

use jiff::Timestamp;
use serde_json::Value;

use super::html::Html;

/// A text of the status; empty if it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A moment of the status.
pub(super) fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The time of day, as every log has it.
pub(super) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S UTC").to_string()
}

/// A moment by its distance from now, with the exact time for who looks closer.
pub(super) fn time(html: &mut Html, at: &Value, now: Timestamp) {
    match moment(at) {
        Some(at) => {
            html.raw("<time datetime=\"").text(at).raw("\" title=\"");
            html.text(at.strftime("%Y-%m-%d %H:%M:%S UTC")).raw("\">");
            html.text(distance(at, now)).raw("</time>");
        }
        None => _ = html.raw("–"),
    }
}

/// A message, with what it has in backticks as code.
pub(super) fn message(html: &mut Html, message: &str) {
    let parts: Vec<&str> = message.split('`').collect();
    // Backticks in pairs leave an odd number of parts.
    if parts.len().is_multiple_of(2) {
        html.text(message);
        return;
    }
    for (number, part) in parts.into_iter().enumerate() {
        if number.is_multiple_of(2) {
            html.text(part);
        } else {
            html.raw("<code>").text(part).raw("</code>");
        }
    }
}

/// `5 min ago` or `in 2 h`.
pub(super) fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.duration_since(now).as_secs();
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", span(seconds.unsigned_abs())),
        _ => format!("{} ago", span(seconds.unsigned_abs())),
    }
}

/// A length of time in the unit that says most.
pub(super) fn span(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const LONG: u64 = 10 * HOUR;
    const DAY: u64 = 24 * HOUR;
    match seconds {
        0..MINUTE => format!("{seconds} s"),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        HOUR..LONG if seconds % HOUR >= MINUTE => {
            format!("{} h {} min", seconds / HOUR, seconds % HOUR / MINUTE)
        }
        HOUR..DAY => format!("{} h", seconds / HOUR),
        _ => format!("{} d", seconds / DAY),
    }
}

/// How long something took, to the hundredth of a second.
pub(super) fn took(seconds: &Value) -> String {
    format!("{:.2} s", seconds.as_f64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_told_as_people_tell_them() {
        for (seconds, told) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h"),
            (3661, "1 h 1 min"),
            (36_000, "10 h"),
            (90_000, "1 d"),
            (400 * 86_400, "400 d"),
        ] {
            assert_eq!(span(seconds), told);
        }
        let now = Timestamp::UNIX_EPOCH;
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        assert_eq!(distance(at(-90), now), "1 min ago");
        assert_eq!(distance(at(7200), now), "in 2 h");
        assert_eq!(distance(now, now), "now");
    }

    #[test]
    fn names_in_messages_become_code_and_nothing_else_does() {
        let shown = |text: &str| {
            let mut html = Html::default();
            message(&mut html, text);
            html.into_string()
        };
        assert_eq!(shown("plugin `a<b` of `x`"), "plugin <code>a&lt;b</code> of <code>x</code>");
        assert_eq!(shown("one ` alone"), "one ` alone");
    }
}
