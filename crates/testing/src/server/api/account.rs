//! Tokens of service accounts: the `TokenRequest` subresource.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::StatusCode;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey};
use serde_json::{Value, json};

use super::{
    Target, kind,
    store::{Refusal, stamp},
};
use crate::{
    Error, clock,
    server::{Shared, User},
};

/// How long a token lives when nothing is said, and the least that may be said.
const USUAL: u64 = 3600;
const LEAST: u64 = 600;

/// Signs the tokens of service accounts.
pub(crate) struct Signer {
    key: KeyPair,
    made: AtomicU64,
}

impl Signer {
    pub(crate) fn new() -> Result<Self, Error> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(Error::of("make a key"))?;
        Ok(Self { key, made: AtomicU64::new(0) })
    }

    /// A JSON Web Token with these claims and a number of its own.
    fn sign(&self, mut claims: Value) -> Result<String, Refusal> {
        claims["jti"] = self.made.fetch_add(1, Ordering::Relaxed).to_string().into();
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&json!({ "alg": "EdDSA" })), part(&claims));
        let signature = self.key.sign(text.as_bytes()).map_err(|error| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Refusal::new(status, "InternalError", error.to_string())
        })?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Makes a token of a service account, if that is still the one that is meant, and so is the pod that
/// the token is to be bound to. A token without an audience of its own opens this server.
pub(super) fn token(shared: &Shared, target: &Target, request: Value) -> Result<Value, Refusal> {
    let Target { kind, namespace, name, .. } = target;
    let account = shared.store.get(kind, namespace, name)?;
    let uid = &account["metadata"]["uid"];
    if differs(&request["metadata"]["uid"], uid) {
        return Err(conflict("the UID in the token request does not match the service account's"));
    }
    let spec = &request["spec"];
    let pod = bound(shared, target, &spec["boundObjectRef"])?;
    let seconds = spec["expirationSeconds"].as_u64().unwrap_or(USUAL);
    if seconds < LEAST {
        let message = "spec.expirationSeconds: may not specify a duration less than 10 minutes";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(Refusal::new(status, "Invalid", message.to_owned()));
    }
    let until = clock::now() + Duration::from_secs(seconds);
    let audiences = spec["audiences"].as_array().cloned().unwrap_or_default();
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let token = shared.signer.sign(json!({
        "aud": audiences,
        "exp": seconds_of(until),
        "iat": seconds_of(clock::now()),
        "iss": "https://kubernetes.default.svc",
        "kubernetes.io": {
            "namespace": namespace,
            "serviceaccount": { "name": name, "uid": uid },
            "pod": pod,
        },
        "sub": user,
    }))?;
    if audiences.is_empty() {
        let user = User::new(&user)
            .group("system:serviceaccounts")
            .group(&format!("system:serviceaccounts:{namespace}"));
        shared.users.token_until(&token, user, until);
    }
    let mut answer = request;
    answer["kind"] = "TokenRequest".into();
    answer["apiVersion"] = "authentication.k8s.io/v1".into();
    answer["status"] = json!({ "token": token, "expirationTimestamp": stamp(until) });
    Ok(answer)
}

/// The pod that a token is to be bound to, if it is the one that is meant and has this account.
fn bound(shared: &Shared, target: &Target, wanted: &Value) -> Result<Value, Refusal> {
    if !wanted.is_object() {
        return Ok(Value::Null);
    }
    let Some(kind) = kind::find("", "v1", "pods").filter(|_| wanted["kind"] == "Pod") else {
        return Err(Refusal::bad("tokens are bound to pods here"));
    };
    let name = wanted["name"].as_str().unwrap_or_default();
    let pod = shared.store.get(kind, &target.namespace, name)?;
    let uid = &pod["metadata"]["uid"];
    if differs(&wanted["uid"], uid) {
        return Err(conflict(
            "the UID in the bound object reference does not match the UID in record",
        ));
    }
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    if account != target.name {
        return Err(conflict("cannot bind token for another serviceaccount than the pod's"));
    }
    Ok(json!({ "name": name, "uid": uid }))
}

/// Whether a UID was said, and another one.
fn differs(said: &Value, uid: &Value) -> bool {
    said.as_str().is_some_and(|said| !said.is_empty() && *uid != said)
}

fn conflict(message: &str) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, "Conflict", message.to_owned())
}

fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
