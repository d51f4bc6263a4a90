//! What the families of Azure share: authorities of Entra ID, tokens for clients, and managed identities.
//!
//! ```text
//! secret, certificate, federated token ──► client.rs ──► Entra ID ──► Token
//! IMDS, App Service, Arc, …            ──► identity.rs ────────────► Token
//! ```

mod authority;
mod client;
mod federated;
mod identity;

use std::time::Duration;

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, jwt::Claims, text::inline};
use serde_json::Value;

pub(crate) use self::{
    authority::{Authority, authority_of_cloud},
    client::Proof,
    federated::file_token,
    identity::Id,
};
use crate::{
    Call,
    http::{Http, Trust, form, shown},
};

/// How long an endpoint of this machine may take.
const MACHINE: Duration = Duration::from_secs(10);

/// How long a token of unknown lifetime is used. Without an end, clients would use it for ever.
const UNKNOWN: SignedDuration = SignedDuration::from_mins(5);

/// Requests to Azure, for one call.
pub(crate) struct Azure<'a> {
    pub(crate) call: &'a Call,
    http: Http,
    /// For endpoints of this machine.
    near: Http,
}

/// A token of Entra ID.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) text: Secret,
    pub(crate) end: Timestamp,
}

impl<'a> Azure<'a> {
    pub(crate) fn new(call: &'a Call) -> Self {
        let http = || Http::new(call, Trust::default());
        Self { call, http: http(), near: http().near(MACHINE) }
    }

    /// Sends a request. `what` is what cannot be done if nobody answers.
    pub(crate) fn send(
        &self,
        what: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Vec<u8>>, Refusal> {
        // Only machines have endpoints without TLS.
        let plain = request.uri().scheme_str() == Some("http");
        let http = if plain { &self.near } else { &self.http };
        let response = http.call(request).map_err(|error| {
            let hint = if error.is_untrusted() {
                "\n\nhint: if a proxy or a private cloud has an authority of its own, add it to the system's, \
                 or name all of them with `SSL_CERT_FILE`"
            } else {
                ""
            };
            Refusal::Failed(format!("{what}: {error}{hint}"))
        })?;
        if response.status().is_redirection() {
            return Err(Refusal::Failed(format!("{what}: a redirect is not followed")));
        }
        Ok(response)
    }
}

impl Token {
    /// Reads the answer of a token endpoint, of Entra ID or of a machine; `None` if it holds no token.
    pub(crate) fn read(answer: &Value, now: Timestamp) -> Option<Self> {
        let text = answer.get("access_token")?.as_str().filter(|text| !text.is_empty())?;
        // Old endpoints have numbers in quotes.
        let number = |name: &str| {
            let value = answer.get(name)?;
            value.as_i64().or_else(|| value.as_str()?.parse().ok())
        };
        let stated = number("expires_on").and_then(|end| Timestamp::from_second(end).ok());
        let lives = number("expires_in").map(SignedDuration::from_secs);
        let end = stated.or_else(|| now.checked_add(lives?).ok());
        Some(Self::new(text, end, now))
    }

    /// A token with its end: as stated, as its claims say, or soon.
    pub(crate) fn new(text: &str, stated: Option<Timestamp>, now: Timestamp) -> Self {
        let claimed = || Claims::read(text).and_then(|claims| claims.time("exp"));
        let end =
            stated.or_else(claimed).unwrap_or_else(|| now.checked_add(UNKNOWN).unwrap_or(now));
        Self { text: Secret::new(text), end }
    }
}

/// The resource of a scope, as endpoints of machines and `az` take it.
pub(crate) fn resource(scope: &str) -> &str {
    scope.strip_suffix("/.default").unwrap_or(scope)
}

/// A request with a form.
pub(crate) fn post(address: &str, fields: &[(&str, &str)]) -> Result<Request<Vec<u8>>, Refusal> {
    Request::post(address)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Accept", "application/json")
        .body(form(fields).into_bytes())
        .map_err(|_| no_address(address))
}

/// The refusal of an address that cannot be asked.
pub(crate) fn no_address(address: &str) -> Refusal {
    Refusal::BadConfig(format!("`{}` is no address", shown(address)))
}

/// The reason that a JSON answer gives, for a person: code and first line of the description. Never more of the
/// answer, because it may hold a token.
pub(crate) fn reason(status: u16, body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = answer.get("error").unwrap_or(&Value::Null);
    let code = error.as_str().or_else(|| error.get("code")?.as_str()).unwrap_or_default();
    let text = answer.get("error_description").or_else(|| error.get("message"));
    let text = text.or_else(|| answer.get("message")).and_then(Value::as_str).unwrap_or_default();
    let text = text.lines().next().unwrap_or_default();
    let mut parts = vec![format!("status {status}")];
    parts.extend([code, text].into_iter().filter(|part| !part.is_empty()).map(inline));
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use serde_json::json;

    use super::*;

    #[test]
    fn ends_of_tokens_are_read_in_every_form_that_endpoints_use() {
        let now = Timestamp::from_second(1_000).unwrap();
        let end = |answer: Value| Token::read(&answer, now).unwrap().end.as_second();
        assert_eq!(end(json!({"access_token": "t", "expires_in": 60})), 1_060);
        assert_eq!(end(json!({"access_token": "t", "expires_in": "60"})), 1_060);
        assert_eq!(
            end(json!({"access_token": "t", "expires_on": "2000", "expires_in": "9"})),
            2_000
        );
        assert_eq!(end(json!({"access_token": "e30.eyJleHAiOjUwMDB9.c2ln"})), 5_000);
        assert_eq!(end(json!({"access_token": "opaque"})), 1_300);
        assert!(Token::read(&json!({"access_token": ""}), now).is_none());
    }

    #[test]
    fn reasons_say_no_more_than_code_and_first_line() {
        let body = br#"{"error":"invalid_client","error_description":"AADSTS7000215: wrong.\r\nTrace ID: 1"}"#;
        assert_eq!(reason(401, body), "status 401: invalid_client: AADSTS7000215: wrong.");
        let body = br#"{"error":{"code":"ManagedIdentityNotFound","message":"none"}}"#;
        assert_eq!(reason(404, body), "status 404: ManagedIdentityNotFound: none");
        assert_eq!(reason(500, b"s3cr3t"), "status 500");
    }
}
