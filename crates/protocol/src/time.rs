//! Times as the reference reads them.

use jiff::Timestamp;

/// Reads RFC 3339 exactly as Go's `time.Parse(time.RFC3339, …)` does (OD-20).
pub fn parse_rfc3339(_text: &str) -> Option<Timestamp> {
    todo!()
}

/// Writes seconds precision in UTC with `Z`, as Kubernetes' `metav1.Time` does.
pub fn format_rfc3339(_time: Timestamp) -> String {
    todo!()
}
