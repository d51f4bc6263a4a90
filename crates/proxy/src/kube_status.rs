//! The proxy's own answers, as a Kubernetes `Status`, which every client can show.

use http::{HeaderValue, Response, StatusCode, header::WARNING};
use serde_json::{Value, json};

use crate::{body::Answer, http_server};

/// The kinds of a group that no server has.
pub(crate) const PLACEHOLDER: &str = "/apis/keyward.invalid/v1";

/// A refusal or failure as plain text.
pub(crate) fn text(code: StatusCode, message: &str) -> Response<Answer> {
    http_server::response(code, "text/plain", format!("keyward proxy: {message}"))
}

/// A refusal or failure as a response.
pub(crate) fn response(code: StatusCode, message: &str) -> Response<Answer> {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("keyward proxy: {message}"),
        "reason": reason(code),
        "code": code.as_u16(),
    });
    in_json(code, &body)
}

/// Says that there is no core group, with the reason as a warning.
pub(crate) fn no_group(message: &str) -> Response<Answer> {
    warned(response(StatusCode::NOT_FOUND, message), message)
}

/// One group that no server has, and why, as a warning.
pub(crate) fn placeholder(message: &str) -> Response<Answer> {
    let version = json!({ "groupVersion": "keyward.invalid/v1", "version": "v1" });
    let body = json!({
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{ "name": "keyward.invalid", "versions": [version], "preferredVersion": version }],
    });
    warned(in_json(StatusCode::OK, &body), message)
}

/// The kinds of the placeholder: none.
pub(crate) fn no_resources() -> Response<Answer> {
    let body = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "keyward.invalid/v1",
        "resources": [],
    });
    in_json(StatusCode::OK, &body)
}

fn in_json(code: StatusCode, body: &Value) -> Response<Answer> {
    http_server::response(code, "application/json", body.to_string())
}

/// Adds a message that kubectl prints once, however often it gets it (RFC 7234, 5.5).
fn warned(mut response: Response<Answer>, message: &str) -> Response<Answer> {
    let text = message.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) =
        HeaderValue::from_bytes(format!("299 - \"keyward proxy: {text}\"").as_bytes())
    {
        response.headers_mut().insert(WARNING, value);
    }
    response
}

/// The `reason` of a code in a `Status`; other codes count as internal errors.
fn reason(code: StatusCode) -> &'static str {
    match code {
        StatusCode::BAD_REQUEST => "BadRequest",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::GATEWAY_TIMEOUT => "Timeout",
        StatusCode::BAD_GATEWAY => "BadGateway",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        _ => "InternalError",
    }
}
