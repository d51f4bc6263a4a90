//! The result of a run, for every protocol.

use keyward_process::runner::{Failure, Output, Status};
use keyward_protocol::Secret;
use serde::de::IgnoredAny;

use super::report::Check;

/// A successful answer in one protocol.
pub(super) trait Reply {
    /// What a run with such an answer does, to follow the plugin's name.
    const DEED: &'static str;

    /// The secrets of the answer, each part that is one by itself.
    fn secrets(&self) -> Vec<Secret>;
}

/// The result of a question.
pub(super) enum Outcome<A> {
    /// A readable answer.
    Answered(A),
    /// A failure as the protocol requires it: a non-zero exit code with a reason on stderr.
    Declined { code: i32 },
    /// The plugin ran until it was killed.
    Hung,
    /// The plugin could not be started.
    NotStarted(String),
    /// A violation of the protocol: the check that it fails, the answer that can be read anyway,
    /// and what else is wrong.
    Wrong { check: Check, what: String, answer: Option<A>, also: Option<(Check, String)> },
}

impl<A> Outcome<A> {
    /// Judges the end of a run; `read` parses the stdout of one that exited with 0.
    pub(super) fn judge(
        result: &Result<Output, Failure>,
        read: impl FnOnce(&[u8]) -> Self,
    ) -> Self {
        let output = match result {
            Ok(output) => output,
            Err(Failure::TimedOut(_) | Failure::Cancelled(_)) => return Self::Hung,
            Err(Failure::TooMuchOutput(_)) => {
                return Self::wrong(Check::Stdout, "prints too much on stdout");
            }
            Err(other) => return Self::NotStarted(other.to_string()),
        };
        match output.status {
            Status::Code(0) if output.stdout.trim_ascii().is_empty() => Self::wrong(
                Check::Stdout,
                "prints nothing and exits with 0: a failure must exit with another code",
            ),
            Status::Code(0) => read(&output.stdout),
            Status::Code(_) if output.stderr.trim_ascii().is_empty() => Self::wrong(
                Check::Failure,
                "fails without a message: a failure must give its reason on stderr",
            ),
            Status::Code(code) => Self::Declined { code },
            Status::Signal(signal) => {
                Self::wrong(Check::Failure, format!("dies by signal {signal}"))
            }
        }
    }

    /// A fault without an answer.
    pub(super) fn wrong(check: Check, what: impl Into<String>) -> Self {
        Self::Wrong { check, what: what.into(), answer: None, also: None }
    }

    /// An answer in another version than requested.
    pub(super) fn mismatch(asked: Option<&str>, found: Option<&str>) -> Self {
        let asked = asked.unwrap_or("no version");
        // Follows how the plugin was asked, which often is the version.
        let what = match found {
            Some(found) => format!("answers in {found}, not in {asked}"),
            None => format!("answers in another `apiVersion` than {asked}, or in none"),
        };
        Self::wrong(Check::Versions, what)
    }

    /// Adds another fault to the outcome.
    pub(super) fn and(self, more: Self) -> Self {
        match (self, more) {
            (
                Self::Wrong { check, what, answer, also: None },
                Self::Wrong { check: next, what: more, .. },
            ) => Self::Wrong { check, what, answer, also: Some((next, more)) },
            (first, _) => first,
        }
    }

    /// Whether the plugin answered correctly.
    pub(super) fn answered(&self) -> bool {
        matches!(self, Self::Answered(_))
    }

    /// Whether both ended in the same way.
    pub(super) fn like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The answer, if there is a readable one.
    pub(super) fn answer(&self) -> Option<&A> {
        match self {
            Self::Answered(answer) | Self::Wrong { answer: Some(answer), .. } => Some(answer),
            _ => None,
        }
    }
}

impl<A: Reply> Outcome<A> {
    /// Describes the result, to follow the plugin's name.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Answered(_) => A::DEED.to_owned(),
            Self::Declined { code } => format!("fails with exit code {code}"),
            Self::Hung => "does not end".to_owned(),
            Self::NotStarted(why) => format!("does not start: {why}"),
            Self::Wrong { what, .. } => what.clone(),
        }
    }
}

/// Finds text around an object on stdout, and the object itself.
pub(super) fn noise(stdout: &[u8]) -> Option<(&'static str, &[u8])> {
    let starts = stdout.iter().enumerate().filter(|(_, b)| **b == b'{').map(|(at, _)| at);
    // A log line may contain braces; many of them are not a log.
    for start in starts.take(32) {
        let rest = &stdout[start..];
        let mut objects = serde_json::Deserializer::from_slice(rest).into_iter::<IgnoredAny>();
        if !matches!(objects.next(), Some(Ok(_))) || objects.byte_offset() < 20 {
            continue;
        }
        let (object, after) = rest.split_at(objects.byte_offset());
        let place = if !stdout[..start].trim_ascii().is_empty() {
            "prints text before the object: stdout must carry the object and nothing else"
        } else if !after.trim_ascii().is_empty() {
            "prints text after the object: stdout must carry the object and nothing else"
        } else {
            return None;
        };
        return Some((place, object));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::noise;

    #[test]
    fn noise_is_told_by_its_place() {
        let object = r#"{"kind":"ExecCredential","status":{}}"#;
        let before = format!("level=info {{fine}}\n{object}\n");
        let (place, found) = noise(before.as_bytes()).unwrap_or_default();
        assert!(place.contains("before") && found == object.as_bytes());
        let after = format!("{object}\nlogged in\n");
        let (place, found) = noise(after.as_bytes()).unwrap_or_default();
        assert!(place.contains("after") && found == object.as_bytes());
        assert_eq!(noise(format!("\n {object}\n").as_bytes()), None);
        assert_eq!(noise(b"error: no such account"), None);
    }
}
