//! Where we differ from the reference on purpose. Each rule is about behaviour and has a reason.

use serde_json::Value;

/// A deliberate departure.
struct Rule {
    /// The vector file it concerns.
    file: &'static str,
    /// Whether a case falls under it, judged by what goes in and what the reference answered,
    /// never by the case's name.
    applies: fn(&Value) -> bool,
    /// What we do instead, and why.
    reason: &'static str,
}

const RULES: &[Rule] = &[];

/// The reason for which this case may differ, if a rule covers it.
pub(super) fn explains(file: &str, case: &Value) -> Option<&'static str> {
    RULES.iter().find(|rule| rule.file == file && (rule.applies)(case)).map(|rule| rule.reason)
}
