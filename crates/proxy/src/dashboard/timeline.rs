//! When credentials came and when they expire, on one line of time.
//!
//! Lifetimes range from minutes to years, so the distance from now is on a logarithmic scale.

use jiff::Timestamp;
use serde_json::Value;

use super::html::Html;

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Where now is, in percent of the width, and how far the past and the future reach.
const NOW: f64 = 35.0;
const PAST: f64 = 30.0 * DAY;
const FUTURE: f64 = 365.0 * DAY;

/// The marks on the line: distance in seconds, label, and whether it is left out where there is little
/// room.
const MARKS: [(f64, &str, bool); 8] = [
    (-DAY, "1 d ago", true),
    (-HOUR, "1 h ago", false),
    (0.0, "now", false),
    (10.0 * MINUTE, "10 min", true),
    (HOUR, "1 h", false),
    (DAY, "1 d", false),
    (30.0 * DAY, "30 d", false),
    (365.0 * DAY, "1 y", true),
];

/// The place of a moment, in percent of the width. `distance` is in seconds from now.
fn place(distance: f64) -> f64 {
    let part = |distance: f64, most: f64| {
        ((1.0 + distance / MINUTE).ln() / (1.0 + most / MINUTE).ln()).clamp(0.0, 1.0)
    };
    if distance < 0.0 {
        NOW - NOW * part(-distance, PAST)
    } else {
        NOW + (100.0 - NOW) * part(distance, FUTURE)
    }
}

/// The labels above the lines.
pub(super) fn axis(html: &mut Html) {
    html.raw("<svg class=\"axis\" aria-hidden=\"true\" width=\"100%\" height=\"20\">");
    for (distance, label, minor) in MARKS {
        let anchor = if distance >= FUTURE { "end" } else { "middle" };
        html.raw("<text y=\"14\" class=\"").raw(if minor { "minor" } else { "major" });
        html.raw("\" text-anchor=\"").raw(anchor).raw("\" x=\"").text(percent(place(distance)));
        html.raw("\">").raw(label).raw("</text>");
    }
    html.raw("</svg>");
}

/// The line of one credential.
pub(super) fn line(html: &mut Html, credential: &Value, now: Timestamp) {
    let at = |name: &str| credential[name].as_str().and_then(|text| text.parse().ok());
    let distance = |at: Timestamp| at.duration_since(now).as_secs_f64();
    let end = at("expires").map(distance);
    let begin = at("since").map_or_else(|| end.unwrap_or_default().min(0.0), distance);
    let (from, to) = (place(begin), end.map_or(100.0, place));
    html.raw("<svg class=\"line\" aria-hidden=\"true\" width=\"100%\" height=\"24\">");
    for (distance, _, minor) in MARKS {
        let x = percent(place(distance));
        let class = if minor { "mark minor" } else { "mark" };
        html.raw("<line y1=\"0\" y2=\"24\" class=\"").raw(class);
        html.raw("\" x1=\"").text(&x).raw("\" x2=\"").text(&x).raw("\"/>");
    }
    let expired = end.is_some_and(|end| end <= 0.0);
    let middle = to.min(NOW);
    bar(html, if expired { "over" } else { "spent" }, from, middle);
    if !expired {
        bar(html, if end.is_some() { "left" } else { "left endless" }, NOW, to);
    }
    let x = percent(NOW);
    html.raw("<line y1=\"0\" y2=\"24\" class=\"now\" x1=\"").text(&x);
    html.raw("\" x2=\"").text(&x).raw("\"/></svg>");
}

fn bar(html: &mut Html, class: &'static str, from: f64, to: f64) {
    // Also what has just come or is about to expire can be seen.
    let width = (to - from).max(0.6);
    html.raw("<rect y=\"7\" height=\"10\" rx=\"3\" class=\"").raw(class);
    html.raw("\" x=\"").text(percent(from)).raw("\" width=\"").text(percent(width)).raw("\"/>");
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_in_order_and_within_the_line() {
        let mut last = -1.0;
        for days in [-400.0, -30.0, -1.0, -0.01, 0.0, 0.001, 0.5, 30.0, 364.0] {
            let here = place(days * DAY);
            assert!(here > last || (days < -29.0 && here == 0.0), "{days} {here} {last}");
            assert!((0.0..=100.0).contains(&here), "{days} {here}");
            last = here;
        }
        assert!((place(0.0) - NOW).abs() < 0.001);
        assert!((place(FUTURE * 9.0) - 100.0).abs() < 0.001);
    }
}
