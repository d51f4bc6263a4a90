//! Which part of the server answers which path.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::{
    Shared,
    answer::{Answer, failure, json_answer, not_found, text_answer},
    api,
    body::Body,
    connection::Connection,
    kubelet,
    users::{Proof, User},
};

/// Who asks, and on which connection.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) user: User,
    pub(crate) proof: Proof,
    pub(crate) connection: Arc<Connection>,
}

/// Answers a request whose sender is known.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    caller: Caller,
    request: Request<Incoming>,
) -> Answer {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if shared.kubelet {
        return kubelet::answer(shared, caller, &parts, request);
    }
    let posted = request.method() == Method::POST;
    match parts.as_slice() {
        [] => json_answer(
            StatusCode::OK,
            &json!({ "paths": ["/api", "/apis", "/healthz", "/version"] }),
        ),
        ["healthz" | "livez" | "readyz", ..] => text_answer("ok"),
        ["version"] => json_answer(StatusCode::OK, &version()),
        ["whoami"] => json_answer(StatusCode::OK, &whoami(&caller)),
        ["big", size] => match size.parse() {
            Ok(size) => text_answer(Body::Fill(size)),
            Err(_) => failure(StatusCode::BAD_REQUEST, "the size is no number"),
        },
        ["echo"] => echo(request),
        ["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"] if posted => {
            json_answer(StatusCode::CREATED, &review(&caller))
        }
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] if posted => {
            json_answer(StatusCode::CREATED, &access())
        }
        ["apis", "authorization.k8s.io", "v1", "subjectaccessreviews"] if posted => {
            api::review(shared, request).await
        }
        _ => {
            if let Some(answer) = api::describe(&parts, wants_protobuf(&request)) {
                return answer;
            }
            match api::target(&parts) {
                Some(target) => api::answer(shared, caller, target, request).await,
                None => not_found(),
            }
        }
    }
}

/// Whether the schema is wanted in protocol buffers.
fn wants_protobuf(request: &Request<Incoming>) -> bool {
    request
        .headers()
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("proto-openapi"))
}

fn version() -> serde_json::Value {
    json!({
        "major": "1",
        "minor": "34",
        "gitVersion": "v1.34.0",
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2025-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    })
}

fn whoami(caller: &Caller) -> serde_json::Value {
    let mut answer = caller.user.info();
    answer["proof"] = format!("{:?}", caller.proof).to_lowercase().into();
    answer["serial"] = json!(caller.connection.facts.serial);
    answer["connection"] = caller.connection.id.into();
    answer
}

fn review(caller: &Caller) -> serde_json::Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": { "userInfo": caller.user.info() },
    })
}

/// Every user who is let in may do everything, unless a fault says otherwise.
fn access() -> serde_json::Value {
    json!({
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {},
        "status": { "allowed": true },
    })
}

fn echo(request: Request<Incoming>) -> Answer {
    let kind = request.headers().get(http::header::CONTENT_TYPE).cloned();
    let mut answer = Answer::new(Body::Echo(request.into_body()));
    if let Some(kind) = kind {
        answer.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    }
    answer
}
