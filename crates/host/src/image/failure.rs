//! Errors for people: each way an image credential provider can fail has its own words.

use std::time::Duration;

use keyward_protocol::{Secret, duration, image::ResponseError};

use super::{answer::Unusable, config::Provider};
use keyward_process::{
    runner::{Failure, Output, Status},
    surroundings::Surroundings,
};

use crate::{Error, Kind, error::inline, redact::Redactor};

/// What a run knows that must not be shown.
pub(super) struct Secrets<'a> {
    pub(super) provider: &'a Provider,
    pub(super) surroundings: &'a Surroundings,
    pub(super) token: Option<&'a Secret>,
}

/// Who needed it, as errors and reports name it.
pub(super) fn needed_by(provider: &Provider) -> String {
    format!("image credential provider `{}` ({})", inline(&provider.name), provider.place)
}

/// A provider that was not started, or that we ended.
pub(super) fn not_run(secrets: &Secrets<'_>, failure: Failure, budget: Duration) -> Error {
    let name = inline(&secrets.provider.name);
    let stderr = failure.left().map(|left| secrets.masked(&left.stderr, &[]));
    let error = match &failure {
        Failure::NotFound => {
            return Error::new(Kind::NotFound, format!("plugin `{name}` was not found"));
        }
        Failure::TimedOut(_) => {
            Error::new(Kind::TimedOut, format!("plugin `{name}` did not answer within {budget:?}"))
        }
        Failure::TooMuchOutput(_) => {
            Error::new(Kind::BadAnswer, format!("plugin `{name}` printed too much"))
        }
        Failure::Cancelled(_) => {
            Error::new(Kind::Failed, format!("plugin `{name}` was ended with this program"))
        }
        Failure::Nul(_) => {
            Error::new(Kind::BadConfig, format!("plugin `{name}` cannot be started"))
        }
        _ => Error::new(Kind::Failed, format!("plugin `{name}` cannot be started")),
    };
    let error = match stderr {
        Some(stderr) if !stderr.trim().is_empty() => error.with_stderr(stderr),
        _ => error,
    };
    match failure {
        Failure::TimedOut(_) | Failure::Cancelled(_) | Failure::TooMuchOutput(_) => error,
        other => error.because(other),
    }
}

/// How long the run took, unless there was none.
pub(super) fn after(error: Error, took: Duration) -> Error {
    let millis = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
    match millis {
        _ if took.is_zero() => error,
        0 => error.note("took", "less than 1ms"),
        _ => error.note("took", duration::format(millis.saturating_mul(1_000_000))),
    }
}

/// A provider that ended by itself, and not well.
pub(super) fn ended(secrets: &Secrets<'_>, output: &Output) -> Error {
    let name = inline(&secrets.provider.name);
    let what = match output.status {
        Status::Code(code) => format!("plugin `{name}` failed with exit code {code}"),
        Status::Signal(signal) => format!("plugin `{name}` was ended by signal {signal}"),
    };
    secrets.with_stderr(Error::new(Kind::Failed, what), output)
}

/// A provider whose answer is not one.
pub(super) fn bad_answer(secrets: &Secrets<'_>, output: &Output, wrong: Unusable) -> Error {
    let name = inline(&secrets.provider.name);
    let what = match &wrong {
        _ if output.stdout.trim_ascii().is_empty() => "answered nothing",
        Unusable::Response(ResponseError::VersionMismatch { .. }) => {
            "answered in another version than it was asked in"
        }
        Unusable::Response(ResponseError::Unreadable(_)) => {
            "answered something that is not a JSON object"
        }
        Unusable::Response(_) => "answered something that is not a credential response",
        Unusable::Key => "answered without a `cacheKeyType` of `Image`, `Registry` or `Global`",
        Unusable::Echo => "answered with the service account's token inside",
    };
    let error = Error::new(Kind::BadAnswer, format!("plugin `{name}` {what}"));
    let error = secrets.with_stderr(error, output);
    match wrong {
        Unusable::Response(ResponseError::VersionMismatch { found }) => {
            let error = match found {
                Some(found) => error.note("it answered in", found.api_version()),
                None => error,
            };
            error.with_hint("set the provider's `apiVersion` to what the plugin speaks")
        }
        Unusable::Response(ResponseError::Unreadable(place) | ResponseError::Decode(place))
            if !output.stdout.trim_ascii().is_empty() =>
        {
            error.because(place)
        }
        Unusable::Echo => error
            .note("because", "the answer would be kept for other pods of the service account")
            .with_hint("set `tokenAttributes.cacheType` to `Token`"),
        _ => error,
    }
}

impl Secrets<'_> {
    fn with_stderr(&self, error: Error, output: &Output) -> Error {
        let said = self.masked(&output.stderr, &output.stdout);
        if said.trim().is_empty() { error } else { error.with_stderr(said) }
    }

    /// What a provider wrote to stderr, without any secret we know of.
    pub(super) fn masked(&self, stderr: &[u8], stdout: &[u8]) -> String {
        let mut redactor = Redactor::default();
        for (name, value) in self.surroundings.vars() {
            redactor.add_inherited(&name.to_string_lossy(), &value.to_string_lossy());
        }
        for (_, value) in &self.provider.env {
            redactor.add_configured(value.expose());
        }
        redactor.add_all(self.token);
        redactor.add_args(&self.provider.args);
        if !redactor.add_passwords(stdout) {
            redactor.add_answer(stdout);
        }
        redactor.apply(stderr)
    }
}
