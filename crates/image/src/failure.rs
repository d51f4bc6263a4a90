//! Errors that only image credential providers have; [`RunSettings`] has those of every
//! plugin.

use std::time::Duration;

use keyward_host::{Error, RunSettings};
use keyward_process::runner::Output;
use keyward_protocol::{duration, image::ResponseError, text::inline};

use super::{answer::Unusable, config::Provider};

/// The provider, as named in errors and reports.
pub(super) fn needed_by(provider: &Provider) -> String {
    format!("image credential provider `{}` ({})", inline(&provider.name), provider.place)
}

/// Adds how long the run took, if there was one.
pub(super) fn after(error: Error, took: Duration) -> Error {
    match took.as_millis() {
        _ if took.is_zero() => error,
        0 => error.note("took", "less than 1ms"),
        _ => error.note("took", duration::show(took)),
    }
}

/// The error for an invalid answer.
pub(super) fn bad_answer(run: &RunSettings<'_>, output: &Output, wrong: Unusable) -> Error {
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
    let error = run.bad_answer(what, output);
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
            .note("because", "the answer would be cached for other pods of the service account")
            .with_hint("set `tokenAttributes.cacheType` to `Token`"),
        _ => error,
    }
}
