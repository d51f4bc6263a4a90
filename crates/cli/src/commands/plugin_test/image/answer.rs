//! What the end and the stdout of a provider's run mean.

use keyward_host::process::{Failure, Output, Status};
use keyward_protocol::image::{Response, ResponseError, Version};

use super::{super::answer::noise, short};
use crate::commands::plugin_test::report::Check;

/// What came of a question.
pub(super) enum Outcome {
    /// An answer that can be read.
    Answered(Box<Response>),
    /// A failure, as the protocol wants it: a non-zero exit with a reason on stderr.
    Declined(i32),
    /// It went on until it was killed.
    Hung,
    /// It could not be started.
    NotStarted(String),
    /// Something that the protocol does not allow, and the check that it fails.
    Wrong(Check, String),
}

impl Outcome {
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Answered(_))
    }

    /// Whether both ended in the same way.
    pub(super) fn like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// What happened, to go after the provider's name.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Answered(_) => "answers".to_owned(),
            Self::Declined(code) => format!("fails with exit code {code}"),
            Self::Hung => "does not end".to_owned(),
            Self::NotStarted(why) => format!("does not start: {why}"),
            Self::Wrong(_, what) => what.clone(),
        }
    }
}

/// Judges a run that was asked in `version`, or in none.
pub(super) fn read(result: &Result<Output, Failure>, version: Option<Version>) -> Outcome {
    let output = match result {
        Ok(output) => output,
        Err(Failure::TimedOut(_) | Failure::Stopped(_)) => return Outcome::Hung,
        Err(Failure::TooMuchOutput(_)) => {
            return wrong(Check::Stdout, "prints without end on stdout");
        }
        Err(other) => return Outcome::NotStarted(other.to_string()),
    };
    match output.status {
        Status::Code(0) => response(&output.stdout, version),
        Status::Code(_) if output.stderr.trim_ascii().is_empty() => {
            wrong(Check::Failure, "fails without a word: a failure must give its reason on stderr")
        }
        Status::Code(code) => Outcome::Declined(code),
        Status::Signal(signal) => wrong(Check::Failure, format!("dies by signal {signal}")),
    }
}

fn response(stdout: &[u8], version: Option<Version>) -> Outcome {
    if stdout.trim_ascii().is_empty() {
        let what = "prints nothing and exits with 0: a failure must exit with another code";
        return wrong(Check::Stdout, what);
    }
    if let Some((what, _)) = noise(stdout) {
        return wrong(Check::Stdout, what);
    }
    let versions = version.map_or_else(|| Version::ALL.to_vec(), |version| vec![version]);
    let mut last = None;
    for version in versions {
        match Response::read(stdout, version) {
            Ok(response) => return Outcome::Answered(Box::new(response)),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(ResponseError::VersionMismatch { found }) => {
            let asked = version.map_or("no version", short);
            let found = found.map_or("another `apiVersion`, or none", short);
            wrong(Check::Versions, format!("is asked in {asked} and answers in {found}"))
        }
        Some(ResponseError::Decode(place)) => {
            wrong(Check::Stdout, format!("answers what a kubelet refuses to read: {place}"))
        }
        _ => wrong(Check::Stdout, "prints something that is no JSON object on stdout"),
    }
}

fn wrong(check: Check, what: impl Into<String>) -> Outcome {
    Outcome::Wrong(check, what.into())
}
