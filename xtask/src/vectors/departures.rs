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

const RULES: &[Rule] = &[Rule {
    file: "plugin-policy",
    applies: |case| {
        let command = case["command"].as_str().unwrap_or_default();
        let last = command.rsplit('/').next().unwrap_or_default();
        command.contains('/') && !command.starts_with('/') && cleans_to(command, last)
    },
    reason: "D5: a path (`./x`) is never turned into a search of PATH for `x`",
}];

/// Whether a relative path means the bare `name` once `.` and `..` are gone.
fn cleans_to(path: &str, name: &str) -> bool {
    let mut left: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, left.last()) {
            ("..", Some(&last)) if last != ".." => drop(left.pop()),
            _ => left.push(part),
        }
    }
    left == [name]
}

/// The reason for which this case may differ, if a rule covers it.
pub(super) fn explains(file: &str, case: &Value) -> Option<&'static str> {
    RULES.iter().find(|rule| rule.file == file && (rule.applies)(case)).map(|rule| rule.reason)
}
