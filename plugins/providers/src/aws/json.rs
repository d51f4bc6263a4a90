//! Signed requests to services that the SDK has no client for here: each would bring a model of 50 more.

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings};
use keyward_plugin::Refusal;
use keyward_protocol::{Secret, text::inline};
use serde_json::Value;

use super::{Aws, Keys};
use crate::sigv4::sign;

/// What every request is.
const CONTENT: &str = "application/x-amz-json-1.1";

/// An operation of a service with the JSON protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation<'a> {
    /// The service in signatures.
    pub(crate) service: &'a str,
    pub(crate) region: &'a str,
    /// The operation, with the name of its interface.
    pub(crate) target: &'a str,
    /// What a refusal refuses, for people: "a login".
    pub(crate) what: &'a str,
}

impl Aws<'_> {
    /// Calls an operation, and returns the answer.
    pub(crate) fn call_json(
        &self,
        operation: Operation<'_>,
        url: &str,
        keys: &Keys,
        body: &str,
    ) -> Result<Secret, Refusal> {
        let url = format!("{}/", url.trim_end_matches('/'));
        let authority =
            url.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        // Without a user and password.
        let host = authority.rsplit('@').next().unwrap_or_default();
        let own = [("host", host), ("content-type", CONTENT), ("x-amz-target", operation.target)];
        let request = SignableRequest::new(
            "POST",
            url.as_str(),
            own.into_iter(),
            SignableBody::Bytes(body.as_bytes()),
        );
        let now = self.call.clock.now();
        let place = (operation.service, operation.region);
        let settings = SigningSettings::default();
        let request = request.map_err(Refusal::failed)?;
        let signed = sign(keys.to_sdk(), place, now, settings, request)?;
        let mut headers = own[1..].to_vec();
        headers.extend(signed.headers());
        let answer = self.send("POST", &url, &headers, body)?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        let error: Value = serde_json::from_str(answer.body.expose()).unwrap_or_default();
        let kind = error["__type"].as_str().unwrap_or("no reason");
        let kind = kind.rsplit('#').next().unwrap_or(kind);
        let message =
            error["message"].as_str().or_else(|| error["Message"].as_str()).unwrap_or_default();
        let text =
            format!("`{host}` refuses {}: {} {}", operation.what, inline(kind), inline(message));
        Err(match answer.status {
            401 | 403 => Refusal::NotAllowed(text),
            _ if kind.starts_with("AccessDenied") => Refusal::NotAllowed(text),
            _ => Refusal::Failed(text),
        })
    }
}
