//! Answers in the form of Kubernetes.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::body::Body;

/// An answer.
pub type Answer = Response<Body>;

/// An answer with a JSON body.
pub fn json_answer(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Body::from(value.to_string().into_bytes()));
    *answer.status_mut() = status;
    set(&mut answer, header::CONTENT_TYPE, "application/json");
    answer
}

/// An answer with plain text.
pub fn text_answer(text: impl Into<Body>) -> Answer {
    let mut answer = Response::new(text.into());
    set(&mut answer, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    answer
}

/// A failure as a Kubernetes `Status`.
pub fn failure(status: StatusCode, message: &str) -> Answer {
    let mut answer = json_answer(status, &status_object(status, message));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = "Bearer realm=\"kubernetes\"";
        set(&mut answer, header::WWW_AUTHENTICATE, challenge);
    }
    answer
}

/// The `Status` object of a failure.
pub fn status_object(status: StatusCode, message: &str) -> Value {
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason(status),
        "code": status.as_u16(),
    })
}

/// The usual answer for a status that a fault demands.
pub fn usual(status: StatusCode, user: Option<&str>, path: &str) -> Answer {
    match status {
        StatusCode::UNAUTHORIZED => failure(status, "Unauthorized"),
        StatusCode::FORBIDDEN => {
            let user = user.unwrap_or("system:anonymous");
            let message = format!("forbidden: User \"{user}\" cannot use path \"{path}\"");
            failure(status, &message)
        }
        _ => failure(status, status.canonical_reason().unwrap_or("failed")),
    }
}

/// The answer for an unknown path.
pub fn not_found() -> Answer {
    failure(StatusCode::NOT_FOUND, "the server could not find the requested resource")
}

/// Sets a header.
pub fn set(answer: &mut Answer, name: header::HeaderName, value: &str) {
    // An invalid value (a redirect to nonsense) is left out rather than treated as an error.
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

fn reason(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}
