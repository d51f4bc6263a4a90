//! The Kubernetes part: discovery, and objects that are kept, changed and watched.

mod access;
mod account;
mod csr;
pub(crate) mod kind;
pub(crate) mod openapi;
mod patch;
mod protobuf;
pub(crate) mod query;
mod selector;
mod store;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

pub(crate) use self::account::Signer;
pub use self::store::{Refusal, Store};
use self::{kind::Kind, query::Query, selector::Selector, watch::Watch};
use super::{
    Caller, Shared,
    answer::{Answer, failure, json_answer},
    pod::{exec::Words, log_answer},
    upgrade::{self, Part, Wish},
};

/// The largest object taken.
const LIMIT: usize = 8 << 20;

/// What a path below `/api` or `/apis` names.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) kind: &'static Kind,
    /// Empty for all, and for kinds that have none.
    pub(crate) namespace: String,
    /// Empty for the whole list.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) part: String,
}

impl Target {
    /// Reads the path behind the group and version.
    pub(crate) fn read(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if rest.first().is_some_and(|plural| *plural != "status") =>
            {
                (*namespace, rest)
            }
            _ => ("", rest),
        };
        let (plural, name, part) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, part] => (*plural, *name, *part),
            _ => return None,
        };
        let kind = kind::find(group, version, plural)?;
        let placed = kind.namespaced != namespace.is_empty() || name.is_empty();
        placed.then(|| Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            part: part.to_owned(),
        })
    }

    /// What is asked of a pod beyond HTTP.
    fn wish(&self) -> Option<Wish<'_>> {
        let part = match self.part.as_str() {
            "exec" => Part::Exec,
            "attach" => Part::Attach,
            "portforward" => Part::Forward,
            _ => return None,
        };
        Some(Wish { namespace: &self.namespace, pod: &self.name, part, words: Words::API })
    }
}

/// Answers a request for objects.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    caller: Caller,
    target: Target,
    request: Request<Incoming>,
) -> Answer {
    let query = Query::read(request.uri());
    let reads = request.method() == Method::GET;
    if target.part == "log" && reads {
        return log(shared, &target, &query);
    }
    if let Some(wish) = target.wish() {
        return match shared.store.get(target.kind, &target.namespace, &target.name) {
            Ok(_) => upgrade::answer(shared, caller.connection, &wish, request),
            Err(refusal) => refused(&refusal, &target),
        };
    }
    let done = match *request.method() {
        Method::GET if target.name.is_empty() => return many(shared, target, &query),
        Method::GET => shared
            .store
            .get(target.kind, &target.namespace, &target.name)
            .map(|object| (StatusCode::OK, object.as_ref().clone())),
        Method::DELETE if target.name.is_empty() => delete_many(shared, &target, &query),
        Method::DELETE => delete(shared, &target, &query),
        Method::POST if target.part == "token" && target.kind.name == "ServiceAccount" => {
            match read(request).await {
                Ok(body) => account::token(shared, &target, body)
                    .map(|object| (StatusCode::CREATED, object)),
                Err(refusal) => Err(refusal),
            }
        }
        Method::POST | Method::PUT | Method::PATCH => {
            write(shared, &caller, &target, &query, request).await
        }
        _ => {
            let message = "the server does not allow this method on the requested resource";
            return failure(StatusCode::METHOD_NOT_ALLOWED, message);
        }
    };
    match done {
        Ok((status, object)) => json_answer(status, &object),
        Err(refusal) => refused(&refusal, &target),
    }
}

fn log(shared: &Arc<Shared>, target: &Target, query: &Query) -> Answer {
    match shared.store.get(target.kind, &target.namespace, &target.name) {
        Ok(_) => log_answer(shared, &target.namespace, &target.name, query),
        Err(refusal) => refused(&refusal, target),
    }
}

fn many(shared: &Arc<Shared>, target: Target, query: &Query) -> Answer {
    let selector = match Selector::read(query.value("labelSelector"), query.value("fieldSelector"))
    {
        Ok(selector) => selector,
        Err(message) => return failure(StatusCode::BAD_REQUEST, &message),
    };
    if query.flag("watch") {
        let watch = Watch { kind: target.kind, namespace: target.namespace, selector };
        return watch::answer(shared, watch, query);
    }
    let (objects, version) = shared.store.list(target.kind, &target.namespace);
    let items: Vec<&Value> =
        objects.iter().map(AsRef::as_ref).filter(|object| selector.matches(object)).collect();
    json_answer(StatusCode::OK, &list(target.kind, version, &json!(items)))
}

fn list(kind: &Kind, version: u64, items: &Value) -> Value {
    json!({
        "kind": format!("{}List", kind.name),
        "apiVersion": kind.api_version(),
        "metadata": { "resourceVersion": version.to_string() },
        "items": items,
    })
}

type Done = Result<(StatusCode, Value), Refusal>;

fn delete(shared: &Shared, target: &Target, query: &Query) -> Done {
    let Target { kind, namespace, name, .. } = target;
    let last = shared.store.delete(kind, namespace, name, dry(query))?;
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": name,
            "group": kind.group,
            "kind": kind.plural,
            "uid": last["metadata"]["uid"],
        },
    });
    Ok((StatusCode::OK, status))
}

fn delete_many(shared: &Shared, target: &Target, query: &Query) -> Done {
    let selector = Selector::read(query.value("labelSelector"), query.value("fieldSelector"))
        .map_err(Refusal::bad)?;
    let (objects, version) = shared.store.list(target.kind, &target.namespace);
    let mut items = Vec::new();
    for object in objects.iter().filter(|object| selector.matches(object)) {
        let text = |field| object["metadata"][field].as_str().unwrap_or_default();
        let last = shared.store.delete(target.kind, text("namespace"), text("name"), dry(query));
        // Somebody else may have been faster.
        items.extend(last.ok());
    }
    Ok((StatusCode::OK, list(target.kind, version, &items.into())))
}

async fn write(
    shared: &Shared,
    caller: &Caller,
    target: &Target,
    query: &Query,
    request: Request<Incoming>,
) -> Done {
    let method = request.method().clone();
    let media = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .unwrap_or("application/json")
        .trim()
        .to_owned();
    let bytes = bytes(request).await?;
    let approves = target.kind.name == csr::KIND && target.part == "approval";
    let mut body = if media == protobuf::MEDIA && approves {
        protobuf::approval(&bytes).ok_or_else(|| Refusal::bad("the body is unreadable"))?
    } else {
        parse(&bytes)?
    };
    let Target { kind, namespace, name, .. } = target;
    let dry = dry(query);
    if method == Method::POST {
        check(kind, namespace, &body)?;
        if kind.name == csr::KIND {
            csr::begin(&mut body, &caller.user)?;
        }
        let made = shared.store.create(kind, namespace, body, dry)?;
        return Ok((StatusCode::CREATED, made));
    }
    if method == Method::PUT {
        check(kind, namespace, &body)?;
        let done = shared
            .store
            .change(kind, namespace, name, dry, |before| finish(shared, target, before, body))?;
        return Ok((StatusCode::OK, done));
    }
    let patched = shared.store.change(kind, namespace, name, dry, |before| {
        let mut after = before.clone();
        patch::apply(&mut after, &media, &body).map_err(Refusal::bad)?;
        finish(shared, target, before, after)
    });
    match patched {
        // A server-side apply makes what is not there yet.
        Err(refusal)
            if refusal.status == StatusCode::NOT_FOUND
                && media == "application/apply-patch+yaml" =>
        {
            check(kind, namespace, &body)?;
            let mut object = body;
            if !object["metadata"].is_object() {
                object["metadata"] = json!({});
            }
            object["metadata"]["name"] = name.as_str().into();
            let made = shared.store.create(kind, namespace, object, dry)?;
            Ok((StatusCode::CREATED, made))
        }
        done => done.map(|object| (StatusCode::OK, object)),
    }
}

/// What a change leads to at once. A subresource changes the status and nothing else.
fn finish(
    shared: &Shared,
    target: &Target,
    before: &Value,
    after: Value,
) -> Result<Value, Refusal> {
    if target.part.is_empty() {
        return Ok(after);
    }
    let approval = target.part == "approval";
    let field = if approval { "status" } else { &target.part };
    let mut object = before.clone();
    object[field] = after[field].clone();
    if approval && target.kind.name == csr::KIND {
        csr::sign(&mut object, &shared.authority)?;
    }
    Ok(object)
}

async fn read(request: Request<Incoming>) -> Result<Value, Refusal> {
    parse(&bytes(request).await?)
}

async fn bytes(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    let body = Limited::new(request.into_body(), LIMIT).collect().await;
    let body = body.map_err(|_| Refusal::bad("the body is too large or was cut"))?;
    Ok(body.to_bytes())
}

fn parse(body: &[u8]) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|_| {
        let message = "the body is no JSON, the only form taken here".to_owned();
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    })
}

fn check(kind: &Kind, namespace: &str, object: &Value) -> Result<(), Refusal> {
    let said = object["kind"].as_str().unwrap_or(kind.name);
    if said != kind.name || !object.is_object() {
        return Err(Refusal::bad(format!("the object is no {}", kind.name)));
    }
    let home = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
    if home != namespace {
        let message = "the namespace of the object does not match the namespace on the request";
        return Err(Refusal::bad(message));
    }
    Ok(())
}

fn dry(query: &Query) -> bool {
    query.all("dryRun").any(|value| value == "All")
}

/// Answers a review of what somebody may do.
pub(crate) async fn review(shared: &Arc<Shared>, request: Request<Incoming>) -> Answer {
    match read(request).await {
        Ok(body) => json_answer(StatusCode::CREATED, &access::review(shared, &body)),
        Err(refusal) => failure(refusal.status, &refusal.message),
    }
}

fn refused(refusal: &Refusal, target: &Target) -> Answer {
    let Refusal { status, reason, message } = refusal;
    let status_object = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {
            "name": target.name, "group": target.kind.group, "kind": target.kind.plural,
        },
        "code": status.as_u16(),
    });
    json_answer(*status, &status_object)
}

/// Discovery and schemas, for whatever path they are at.
pub(crate) fn describe(parts: &[&str], protobuf: bool) -> Option<Answer> {
    let value = match parts {
        ["api"] => kind::core_versions(),
        ["apis"] => kind::groups(),
        ["api", version] => kind::resources("", version)?,
        ["apis", group] => kind::group(group)?,
        ["apis", group, version] => kind::resources(group, version)?,
        ["openapi", "v2"] if protobuf => {
            let mut answer = Answer::new(super::Body::from(openapi::V2.to_vec()));
            super::answer::set(&mut answer, header::CONTENT_TYPE, openapi::V2_MEDIA);
            return Some(answer);
        }
        ["openapi", "v2"] => openapi::v2(),
        ["openapi", "v3"] => openapi::v3(),
        ["openapi", "v3", "api", version] => openapi::v3_of("", version)?,
        ["openapi", "v3", "apis", group, version] => openapi::v3_of(group, version)?,
        _ => return None,
    };
    Some(json_answer(StatusCode::OK, &value))
}

/// Finds the objects a path names, if it names any.
pub(crate) fn target(parts: &[&str]) -> Option<Target> {
    match parts {
        ["api", version, rest @ ..] => Target::read("", version, rest),
        ["apis", group, version, rest @ ..] => Target::read(group, version, rest),
        _ => None,
    }
}
