//! The call that gives a login.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, text::inline, url::mask};
use serde_json::Value;

use super::registry::Registry;
use crate::{
    Call,
    aws::{Aws, Keys, Operation},
};

/// A login for a registry.
#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
    pub(super) expires: Option<Timestamp>,
}

/// A login for a registry.
pub(super) fn token(
    call: &Call,
    aws: &Aws<'_>,
    registry: &Registry,
    keys: &Keys,
) -> Result<Login, Refusal> {
    // The environment or the profile may name another endpoint than the registry's own.
    let service = registry.service.replace('-', "_").to_uppercase();
    let url = aws.endpoint(&service).unwrap_or_else(|| format!("https://{}", registry.host));
    call.note("endpoint", mask(&url));
    let operation = Operation {
        service: registry.service,
        region: &registry.region,
        target: registry.target,
        what: "a login",
    };
    let answer = aws.call_json(operation, &url, keys, "{}")?;
    read(answer.expose()).ok_or_else(|| {
        Refusal::Failed(format!("`{}` answered in a way that cannot be read", inline(&mask(&url))))
    })
}

/// Reads the answer: a list of logins from private registries, one from the public registry.
fn read(answer: &str) -> Option<Login> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let data = &answer["authorizationData"];
    let data = data.get(0).unwrap_or(data);
    let token = STANDARD.decode(data["authorizationToken"].as_str()?).ok()?;
    let token = String::from_utf8(token).ok()?;
    let (user, password) = token.split_once(':')?;
    // Seconds, with a fraction.
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of a second does not matter")]
    let expires =
        data["expiresAt"].as_f64().and_then(|seconds| Timestamp::from_second(seconds as i64).ok());
    Some(Login { user: user.to_owned(), password: Secret::new(password), expires })
}
