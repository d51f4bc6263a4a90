//! Which part of the server answers which path.

use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use super::{
    Shared,
    answer::{Answer, failure, json_answer, not_found, text_answer},
    body::Body,
    connection::Connection,
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
        ["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"]
            if request.method() == Method::POST =>
        {
            json_answer(StatusCode::CREATED, &review(&caller))
        }
        _ => {
            let _ = shared;
            not_found()
        }
    }
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

fn echo(request: Request<Incoming>) -> Answer {
    let kind = request.headers().get(http::header::CONTENT_TYPE).cloned();
    let mut answer = Answer::new(Body::Echo(request.into_body()));
    if let Some(kind) = kind {
        answer
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, kind);
    }
    answer
}
