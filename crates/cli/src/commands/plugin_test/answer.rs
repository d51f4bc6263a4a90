//! Interprets the stdout of a run.

use keyward_protocol::{
    Secret,
    exec::{Answer, AnswerError, Detail, Version},
};

use super::{
    outcome::{self, Reply, noise},
    report::Check,
};

/// A credential.
pub(super) struct Given {
    pub(super) answer: Answer,
    /// Whether it was written in YAML.
    pub(super) yaml: bool,
}

impl Reply for Given {
    const DEED: &'static str = "gives a credential";

    fn secrets(&self) -> Vec<Secret> {
        let key = self.answer.pair.as_ref().map(|pair| &pair.key);
        let mut parts = Vec::new();
        for secret in self.answer.token.iter().chain(key) {
            parts.push(secret.clone());
            // A key may be leaked line by line.
            let lines = secret.expose().lines();
            let telling = lines.filter(|line| line.len() > 7 && !line.starts_with("-----"));
            parts.extend(telling.map(Secret::new));
        }
        parts
    }
}

/// The result of a question.
pub(super) type Outcome = outcome::Outcome<Given>;

/// Reads the output of a run that exited with 0.
pub(super) fn read(stdout: &[u8], version: Option<Version>) -> Outcome {
    let yaml = stdout.trim_ascii_start().first() != Some(&b'{');
    let mut last = None;
    let versions = version.map_or_else(|| Version::ALL.to_vec(), |version| vec![version]);
    for version in versions {
        match Answer::read(stdout, version) {
            Ok(answer) => return Outcome::Answered(Given { answer, yaml }),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => explain(&error, stdout, version),
        None => Outcome::wrong(Check::Stdout, "prints something unreadable"),
    }
}

const NO_ANSWER: &str = "exits with 0 and prints no `ExecCredential`: a failure must exit with \
                         another code and give its reason on stderr";

fn explain(error: &AnswerError, stdout: &[u8], version: Option<Version>) -> Outcome {
    if let Some((what, object)) = noise(stdout) {
        let noisy = Outcome::wrong(Check::Stdout, what);
        return match version.map(|version| Answer::read(object, version)) {
            Some(Ok(answer)) => Outcome::Wrong {
                check: Check::Stdout,
                what: what.to_owned(),
                answer: Some(Given { answer, yaml: false }),
                also: None,
            },
            // The object without the noise around it.
            Some(Err(error)) => noisy.and(explain(&error, object, version)),
            None => noisy,
        };
    }
    // Almost any line of text is a YAML document.
    let named = [&b"apiVersion"[..], b"ExecCredential"]
        .iter()
        .any(|name| stdout.windows(name.len()).any(|part| part == *name));
    if !named {
        return Outcome::wrong(Check::Stdout, NO_ANSWER);
    }
    match error {
        AnswerError::VersionMismatch { found, .. } => {
            Outcome::mismatch(version.map(Version::name), found.map(Version::name))
        }
        AnswerError::MissingStatus => {
            Outcome::wrong(Check::Credential, "answers without a `status`")
        }
        AnswerError::OldForm => Outcome::wrong(
            Check::Credential,
            "answers without a `status`, as the original proposal had it, in a version that needs \
             one",
        ),
        AnswerError::MissingCredentials => {
            Outcome::wrong(Check::Credential, "answers with neither a token nor a certificate")
        }
        AnswerError::PartialPair => Outcome::wrong(
            Check::Certificate,
            "answers with a certificate without its key, or a key without its certificate",
        ),
        AnswerError::Decode { what, detail } => match detail {
            Detail::Timestamp => Outcome::wrong(
                Check::Expiry,
                "answers with an `expirationTimestamp` that is not RFC 3339, such as \
                 `2030-01-02T03:04:05Z`",
            ),
            Detail::UnknownType | Detail::OtherType | Detail::BadApiVersion => Outcome::wrong(
                Check::Versions,
                format!("answers with an unknown `kind` or `apiVersion`: {what}"),
            ),
            Detail::FieldType => Outcome::wrong(
                Check::Credential,
                format!("answers with a field of the wrong type: {what}"),
            ),
            _ => Outcome::wrong(Check::Stdout, NO_ANSWER),
        },
        _ => Outcome::wrong(Check::Stdout, "prints something unreadable"),
    }
}
