//! What the stdout of a provider's run means.

use keyward_protocol::{
    Secret,
    image::{Response, ResponseError, Version},
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

/// What came of a question.
pub(super) type Outcome = outcome::Outcome<Response>;

/// Reads what was printed by a run that said all went well and was asked in `version`, or in none.
pub(super) fn read(stdout: &[u8], version: Option<Version>) -> Outcome {
    if let Some((what, _)) = noise(stdout) {
        return Outcome::wrong(Check::Stdout, what);
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
        _ => Outcome::wrong(Check::Stdout, "prints something that is no JSON object on stdout"),
    }
}
