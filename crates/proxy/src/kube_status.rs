//! The proxy's own answers, as a Kubernetes `Status`, which every client can show.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use serde_json::json;

use crate::body::Answer;

/// A refusal or failure as plain text. Where client-go discovers API groups it does not read a
/// `Status`, and would print `unknown` instead of our message.
pub(crate) fn text(code: StatusCode, message: &str) -> Response<Answer> {
    let mut response =
        Response::new(Answer::from(Bytes::from(format!("keyward proxy: {message}"))));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
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
    let mut response = Response::new(Answer::from(Bytes::from(body.to_string())));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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
