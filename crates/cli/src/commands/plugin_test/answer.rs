//! What a run's end and its stdout mean.

use keyward_host::process::{Failure, Output, Status};
use keyward_protocol::exec::{Answer, AnswerError, Detail, Version};
use serde::de::IgnoredAny;

use super::{question::short, report::Check};

/// What came of a question.
pub(super) enum Outcome {
    /// A credential. `yaml` when it was not written in JSON.
    Answered { answer: Box<Answer>, yaml: bool },
    /// A failure, as the protocol wants it: a non-zero exit with a reason on stderr.
    Declined { code: i32 },
    /// It went on until it was killed.
    Hung,
    /// It could not be started.
    NotStarted(String),
    /// Something that the protocol does not allow, the check that it fails, and the answer that
    /// can be made out all the same.
    Wrong { check: Check, what: String, answer: Option<Box<Answer>> },
}

impl Outcome {
    /// Whether both ended in the same way.
    pub(super) fn like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The answer, if there is one to look at.
    pub(super) fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Answered { answer, .. } | Self::Wrong { answer: Some(answer), .. } => {
                Some(answer)
            }
            _ => None,
        }
    }

    /// What happened, to go after the plugin's name.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Answered { .. } => "gives a credential".to_owned(),
            Self::Declined { code } => format!("fails with exit code {code}"),
            Self::Hung => "does not end".to_owned(),
            Self::NotStarted(why) => format!("does not start: {why}"),
            Self::Wrong { what, .. } => what.clone(),
        }
    }
}

/// Judges a run that was asked for `version`, or for none in particular.
pub(super) fn judge(result: &Result<Output, Failure>, version: Option<Version>) -> Outcome {
    let output = match result {
        Ok(output) => output,
        Err(Failure::TimedOut(_) | Failure::Stopped(_)) => return Outcome::Hung,
        Err(Failure::TooMuchOutput(_)) => {
            return wrong(Check::Stdout, "prints without end on stdout");
        }
        Err(other) => return Outcome::NotStarted(other.to_string()),
    };
    match output.status {
        Status::Code(0) => read(&output.stdout, version),
        Status::Code(_) if output.stderr.trim_ascii().is_empty() => {
            wrong(Check::Failure, "fails without a word: a failure must give its reason on stderr")
        }
        Status::Code(code) => Outcome::Declined { code },
        Status::Signal(signal) => wrong(Check::Failure, &format!("dies by signal {signal}")),
    }
}

/// Reads what was printed by a run that said all went well.
pub(super) fn read(stdout: &[u8], version: Option<Version>) -> Outcome {
    let yaml = stdout.trim_ascii_start().first() != Some(&b'{');
    let mut last = None;
    let versions = version.map_or_else(|| Version::ALL.to_vec(), |version| vec![version]);
    for version in versions {
        match Answer::read(stdout, version) {
            Ok(answer) => return Outcome::Answered { answer: Box::new(answer), yaml },
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => explain(&error, stdout, version),
        None => wrong(Check::Stdout, "prints something unreadable"),
    }
}

const NO_ANSWER: &str = "exits with 0 and prints no `ExecCredential`: a failure must exit with \
                         another code and give its reason on stderr";

fn explain(error: &AnswerError, stdout: &[u8], version: Option<Version>) -> Outcome {
    if stdout.trim_ascii().is_empty() {
        return wrong(
            Check::Stdout,
            "prints nothing and exits with 0: a failure must exit with another code",
        );
    }
    if let Some((what, object)) = noise(stdout) {
        let answer = version.and_then(|version| Answer::read(object, version).ok());
        let (check, what) = (Check::Stdout, what.to_owned());
        return Outcome::Wrong { check, what, answer: answer.map(Box::new) };
    }
    // Almost any line of text is a YAML document.
    let named = [&b"apiVersion"[..], b"ExecCredential"]
        .iter()
        .any(|name| stdout.windows(name.len()).any(|part| part == *name));
    if !named {
        return wrong(Check::Stdout, NO_ANSWER);
    }
    match error {
        AnswerError::VersionMismatch { found, .. } => {
            let asked = version.map_or("no version", short);
            let found = found.map_or("another `apiVersion`, or none", short);
            wrong(Check::Versions, &format!("is asked in {asked} and answers in {found}"))
        }
        AnswerError::MissingStatus => wrong(Check::Credential, "answers without a `status`"),
        AnswerError::OldForm => wrong(
            Check::Credential,
            "answers without a `status`, as the original proposal had it, in a version that needs \
             one",
        ),
        AnswerError::MissingCredentials => {
            wrong(Check::Credential, "answers with neither a token nor a certificate")
        }
        AnswerError::PartialPair => wrong(
            Check::Certificate,
            "answers with a certificate without its key, or a key without its certificate",
        ),
        AnswerError::Decode { what, detail } => match detail {
            Detail::Timestamp => wrong(
                Check::Expiry,
                "answers with an `expirationTimestamp` that is not RFC 3339, such as \
                 `2030-01-02T03:04:05Z`",
            ),
            Detail::UnknownType | Detail::OtherType | Detail::BadApiVersion => wrong(
                Check::Versions,
                &format!("answers with an unknown `kind` or `apiVersion`: {what}"),
            ),
            Detail::FieldType => {
                wrong(Check::Credential, &format!("answers with a field of the wrong type: {what}"))
            }
            _ => wrong(Check::Stdout, NO_ANSWER),
        },
        _ => wrong(Check::Stdout, "prints something unreadable"),
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

fn wrong(check: Check, what: &str) -> Outcome {
    Outcome::Wrong { check, what: what.to_owned(), answer: None }
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
