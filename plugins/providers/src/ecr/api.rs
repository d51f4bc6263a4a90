//! The call that gives a login: one signed request, for which the SDK would bring a model of 50 more.

use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use aws_smithy_runtime_api::client::identity::Identity;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, text::inline};
use serde_json::Value;

use super::registry::Registry;
use crate::aws::{Aws, Keys, system_time};

/// A login for a registry.
#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
    pub(super) expires: Option<Timestamp>,
}

/// What every request is.
const CONTENT: &str = "application/x-amz-json-1.1";

impl Aws<'_> {
    /// The URL of the API for a registry: that of the environment or the profile, or the registry's own.
    pub(super) fn ecr_url(&self, registry: &Registry) -> String {
        let name = registry.service().replace('-', "_").to_uppercase();
        self.endpoint(&name).unwrap_or_else(|| format!("https://{}", registry.api()))
    }
}

/// A login for a registry.
pub(super) fn token(
    aws: &Aws<'_>,
    registry: &Registry,
    keys: &Keys,
    now: Timestamp,
) -> Result<Login, Refusal> {
    let url = format!("{}/", aws.ecr_url(registry).trim_end_matches('/'));
    let host = url.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let body = "{}";
    let identity: Identity = keys.to_sdk().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(registry.region())
        .name(registry.service())
        .time(system_time(now))
        .settings(SigningSettings::default())
        .build()
        .map_err(Refusal::failed)?
        .into();
    let own = [("host", host), ("content-type", CONTENT), ("x-amz-target", registry.target())];
    let request = SignableRequest::new(
        "POST",
        url.as_str(),
        own.into_iter(),
        SignableBody::Bytes(body.as_bytes()),
    );
    let request = request.map_err(Refusal::failed)?;
    let (signed, _) = sign(request, &params).map_err(Refusal::failed)?.into_parts();
    let mut headers = own[1..].to_vec();
    headers.extend(signed.headers());
    let answer = aws.send("POST", &url, &headers, body)?;
    if answer.status != 200 {
        let error: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        let kind = error["__type"].as_str().unwrap_or("no reason");
        let kind = kind.rsplit('#').next().unwrap_or(kind);
        let message =
            error["message"].as_str().or_else(|| error["Message"].as_str()).unwrap_or_default();
        let text = format!("`{host}` refuses a login: {} {}", inline(kind), inline(message));
        return Err(match answer.status {
            401 | 403 => Refusal::NotAllowed(text),
            _ => Refusal::Failed(text),
        });
    }
    read(answer.body.expose())
        .ok_or_else(|| Refusal::Failed(format!("`{host}` answered in a way that cannot be read")))
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
