//! How a run ends, whatever the protocol.

use keyward_process::runner::{Failure, Output, Status};
use keyward_protocol::Secret;
use serde::de::IgnoredAny;

use super::report::Check;

/// What plugins of one protocol print when all goes well.
pub(super) trait Reply {
    /// What a run does that prints one, to go after the plugin's name.
    const DEED: &'static str;

    /// What must be seen nowhere else: each part that says something by itself.
    fn secrets(&self) -> Vec<Secret>;
}

/// What came of a question.
pub(super) enum Outcome<A> {
    /// An answer that can be read.
    Answered(A),
    /// A failure, as the protocol wants it: a non-zero exit with a reason on stderr.
    Declined { code: i32 },
    /// The plugin ran until it was killed.
    Hung,
    /// The plugin could not be started.
    NotStarted(String),
    /// Something that the protocol does not allow, the check that it fails, the answer that can be
    /// made out all the same, and what else is wrong with that.
    Wrong { check: Check, what: String, answer: Option<A>, also: Option<(Check, String)> },
}

impl<A> Outcome<A> {
    /// What the end of a run means; `read` is for the stdout of one that said all went well.
    pub(super) fn judge(
        result: &Result<Output, Failure>,
        read: impl FnOnce(&[u8]) -> Self,
    ) -> Self {
        let output = match result {
            Ok(output) => output,
            Err(Failure::TimedOut(_) | Failure::Cancelled(_)) => return Self::Hung,
            Err(Failure::TooMuchOutput(_)) => {
                return Self::wrong(Check::Stdout, "prints without end on stdout");
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
                "fails without a word: a failure must give its reason on stderr",
            ),
            Status::Code(code) => Self::Declined { code },
            Status::Signal(signal) => {
                Self::wrong(Check::Failure, format!("dies by signal {signal}"))
            }
        }
    }

    /// A fault that leaves no answer.
    pub(super) fn wrong(check: Check, what: impl Into<String>) -> Self {
        Self::Wrong { check, what: what.into(), answer: None, also: None }
    }

    /// An answer in another version than the question's.
    pub(super) fn mismatch(asked: Option<&str>, found: Option<&str>) -> Self {
        let asked = asked.unwrap_or("no version");
        // Goes after how it was asked, which often is the version.
        let what = match found {
            Some(found) => format!("answers in {found}, not in {asked}"),
            None => format!("answers in another `apiVersion` than {asked}, or in none"),
        };
        Self::wrong(Check::Versions, what)
    }

    /// Adds one more fault to the outcome.
    pub(super) fn and(self, more: Self) -> Self {
        match (self, more) {
            (
                Self::Wrong { check, what, answer, also: None },
                Self::Wrong { check: next, what: more, .. },
            ) => Self::Wrong { check, what, answer, also: Some((next, more)) },
            (first, _) => first,
        }
    }

    /// Whether all went well.
    pub(super) fn answered(&self) -> bool {
        matches!(self, Self::Answered(_))
    }

    /// Whether both ended in the same way.
    pub(super) fn like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The answer, if there is one to look at.
    pub(super) fn answer(&self) -> Option<&A> {
        match self {
            Self::Answered(answer) | Self::Wrong { answer: Some(answer), .. } => Some(answer),
            _ => None,
        }
    }
}

impl<A: Reply> Outcome<A> {
    /// What happened, to go after the plugin's name.
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

/// Says where stdout has text around an object, and which part is the object.
pub(super) fn noise(stdout: &[u8]) -> Option<(&'static str, &[u8])> {
    let starts = stdout.iter().enumerate().filter(|(_, b)| **b == b'{').map(|(at, _)| at);
    // A log line may have braces of its own; more than a few are no log.
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
