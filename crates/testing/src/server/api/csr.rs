//! `CertificateSigningRequest`s: checked when they are made, signed when they are approved.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::{Value, json};

use super::store::{Refusal, now};
use crate::{
    authority::{Authority, SigningRequest},
    server::User,
};

/// The kind's name.
pub(super) const KIND: &str = "CertificateSigningRequest";

/// The one signer here: certificates for clients, by the authority that the server trusts.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// What a certificate lives when nothing is said.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks a new request, and writes down who asks.
pub(super) fn begin(object: &mut Value, user: &User) -> Result<(), Refusal> {
    let spec = &object["spec"];
    parse(spec)?;
    for field in ["signerName", "usages"] {
        if spec[field].is_null() {
            return Err(invalid(&format!("spec.{field}: Required value")));
        }
    }
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if spec["signerName"] == SIGNER && !usages.contains(&"client auth") {
        return Err(invalid("spec.usages: `client auth` is what this signer is for"));
    }
    if spec["expirationSeconds"].as_u64().is_some_and(|seconds| seconds < 600) {
        return Err(invalid("spec.expirationSeconds: may not specify a duration less than 600"));
    }
    let info = user.info();
    for field in ["username", "uid", "groups", "extra"] {
        if info[field].is_null() {
            object["spec"].as_object_mut().map(|spec| spec.remove(field));
        } else {
            object["spec"][field] = info[field].clone();
        }
    }
    object["status"] = json!({});
    Ok(())
}

/// Does what a cluster's signer does by and by: an approved request gets its certificate.
pub(super) fn sign(object: &mut Value, authority: &Authority) -> Result<(), Refusal> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let has = |kind: &str| conditions.iter().any(|condition| condition["type"] == kind);
    if has("Approved") && has("Denied") {
        return Err(invalid("status.conditions: Approved and Denied exclude each other"));
    }
    let done = has("Failed") || !object["status"]["certificate"].is_null();
    if !has("Approved") || done || object["spec"]["signerName"] != SIGNER {
        return Ok(());
    }
    let seconds = object["spec"]["expirationSeconds"].as_u64();
    let lifetime = seconds.map_or(LIFETIME, Duration::from_secs);
    let request = parse(&object["spec"])?;
    match authority.certify(&request, lifetime) {
        Ok(pem) => object["status"]["certificate"] = STANDARD.encode(pem).into(),
        Err(error) => {
            let failed = json!({
                "type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                "message": error.to_string(), "lastUpdateTime": now(),
            });
            let mut conditions = conditions;
            conditions.push(failed);
            object["status"]["conditions"] = conditions.into();
        }
    }
    Ok(())
}

fn parse(spec: &Value) -> Result<SigningRequest, Refusal> {
    let text = spec["request"].as_str().unwrap_or_default();
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pem = bytes.ok_or_else(|| invalid("spec.request: it is no Base64"))?;
    SigningRequest::read(&pem).map_err(|why| invalid(&format!("spec.request: {why}")))
}

fn invalid(what: &str) -> Refusal {
    let message = format!("{KIND}.certificates.k8s.io is invalid: {what}");
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
}
