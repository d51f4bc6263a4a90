//! Interprets the stdout of a provider's run.

use jiff::Timestamp;
use keyward_protocol::{
    Secret,
    image::{CacheKey, ProposalResponse, Response, ResponseError, Version},
};

use crate::commands::plugin_test::{
    outcome::{self, Reply, noise},
    report::Check,
};

impl Reply for Response {
    const DEED: &'static str = "answers";

    fn secrets(&self) -> Vec<Secret> {
        let passwords = self.auth.iter().map(|(_, login)| &login.password);
        passwords.filter(|password| !password.is_empty()).cloned().collect()
    }
}

/// The result of a question.
pub(super) type Outcome = outcome::Outcome<Response>;

/// Reads the output of a run that exited with 0 and was asked in `version`, or in none.
pub(super) fn read(stdout: &[u8], version: Option<Version>) -> Outcome {
    if let Some((what, object)) = noise(stdout) {
        // The object without the noise around it.
        return Outcome::wrong(Check::Stdout, what).and(read(object, version));
    }
    let versions = version.map_or_else(|| Version::ALL.to_vec(), |version| vec![version]);
    let mut last = None;
    for version in versions {
        match Response::read(stdout, version) {
            Ok(response) => return Outcome::Answered(response),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(ResponseError::VersionMismatch { found }) => {
            Outcome::mismatch(version.map(Version::name), found.map(Version::name))
        }
        Some(ResponseError::Decode(place)) => Outcome::wrong(
            Check::Stdout,
            format!("answers what a kubelet refuses to read: {place}"),
        ),
        _ => Outcome::wrong(Check::Stdout, "prints something on stdout that is not a JSON object"),
    }
}

/// Reads the output of a provider of the original proposal: one login for the image's registry,
/// converted to a kubelet's answer.
pub(super) fn read_proposal(stdout: &[u8], image: &str, now: Timestamp) -> Outcome {
    if let Some((what, object)) = noise(stdout) {
        return Outcome::wrong(Check::Stdout, what).and(read_proposal(object, image, now));
    }
    match ProposalResponse::read(stdout) {
        Ok(ProposalResponse { login, expires }) => {
            let nanos = |end: Timestamp| end.duration_since(now).as_nanos();
            let nanos = |end| i64::try_from(nanos(end)).unwrap_or(i64::MAX);
            let registry = image.split('/').next().unwrap_or(image);
            Outcome::Answered(Response {
                key: CacheKey::Image,
                duration: Some(expires.map_or(0, nanos)),
                auth: vec![(registry.to_owned(), login)],
            })
        }
        Err(ResponseError::Decode(place)) => {
            let what = format!("answers what the proposal does not have: {place}");
            Outcome::wrong(Check::Stdout, what)
        }
        Err(_) => Outcome::wrong(Check::Stdout, "prints something on stdout that is not an object"),
    }
}
