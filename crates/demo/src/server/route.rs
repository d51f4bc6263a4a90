//! Routes paths to the parts of the server.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::{
    answer::{Answer, failure, json_answer, not_found, text_answer},
    body::Body,
    connection::Connection,
    users::{Proof, User},
};

/// The API that authenticated users get.
pub trait Api: Send + Sync + 'static {
    /// Answers a request.
    fn answer(&self, caller: Caller, request: Request<Incoming>) -> Answering<'_>;
}

/// A pending answer.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// The user who sent a request, and its connection.
#[derive(Debug)]
pub struct Caller {
    /// The user whose credential the request carried.
    pub user: User,
    /// The kind of that credential.
    pub proof: Proof,
    /// The request's connection.
    pub connection: Arc<Connection>,
}

/// Only the paths that [`common`] answers.
#[derive(Debug)]
pub struct SmallApi;

impl Api for SmallApi {
    fn answer(&self, caller: Caller, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(async move { common(&caller, request).unwrap_or_else(|_| not_found()) })
    }
}

/// A [`SmallApi`] with config maps that can be watched.
#[derive(Debug)]
pub struct ConfigMaps(broadcast::Sender<Bytes>);

impl Default for ConfigMaps {
    fn default() -> Self {
        Self(broadcast::Sender::new(64))
    }
}

impl ConfigMaps {
    /// Adds a config map, and notifies every open watch.
    pub fn put(&self, name: &str) {
        let event = json!({ "type": "ADDED", "object": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": "default" },
        } });
        // Fails if nobody watches, which is fine.
        let _ = self.0.send(format!("{event}\n").into());
    }

    fn watch(&self) -> Answer {
        let mut events = self.0.subscribe();
        let (sender, body) = Body::stream();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = events.recv() => {
                        let Ok(event) = event else { return };
                        if sender.send(event).await.is_err() {
                            return;
                        }
                    }
                    () = sender.closed() => return,
                }
            }
        });
        text_answer(body)
    }
}

impl Api for Arc<ConfigMaps> {
    fn answer(&self, caller: Caller, request: Request<Incoming>) -> Answering<'_> {
        Box::pin(async move {
            common(&caller, request).unwrap_or_else(|request| {
                match (request.uri().path(), request.uri().query()) {
                    ("/api/v1/namespaces/default/configmaps", Some("watch=true")) => self.watch(),
                    _ => not_found(),
                }
            })
        })
    }
}

/// Answers what every API here has: health, version, whoami, and bodies for measurements. Returns
/// other requests.
#[expect(clippy::result_large_err, reason = "the request is given back, not an error")]
pub fn common(caller: &Caller, request: Request<Incoming>) -> Result<Answer, Request<Incoming>> {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let posted = request.method() == Method::POST;
    Ok(match parts.as_slice() {
        [] => json_answer(
            StatusCode::OK,
            &json!({ "paths": ["/api", "/apis", "/healthz", "/version"] }),
        ),
        ["healthz" | "livez" | "readyz", ..] => text_answer("ok"),
        ["version"] => json_answer(StatusCode::OK, &version()),
        ["whoami"] => json_answer(StatusCode::OK, &whoami(caller)),
        ["big", size] => match size.parse() {
            Ok(size) => text_answer(Body::Fill(size)),
            Err(_) => failure(StatusCode::BAD_REQUEST, "the size is no number"),
        },
        ["echo"] => echo(request),
        ["apis", "authentication.k8s.io", "v1", "selfsubjectreviews"] if posted => {
            json_answer(StatusCode::CREATED, &review(caller))
        }
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] if posted => {
            json_answer(StatusCode::CREATED, &access())
        }
        _ => return Err(request),
    })
}
fn version() -> Value {
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

fn whoami(caller: &Caller) -> Value {
    let mut answer = caller.user.info();
    answer["proof"] = format!("{:?}", caller.proof).to_lowercase().into();
    answer["serial"] = json!(caller.connection.facts.serial);
    answer["connection"] = caller.connection.id.into();
    answer
}

fn review(caller: &Caller) -> Value {
    json!({
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {},
        "status": { "userInfo": caller.user.info() },
    })
}

/// Every authenticated user may do everything, unless a fault says otherwise.
fn access() -> Value {
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
