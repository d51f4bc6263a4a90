//! The plugin's side: what the SDK makes of the request in its environment, by the strict way.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_plugin::{Endpoint, Question, QuestionError};
use serde_json::{Value, json};

pub(super) fn check(case: &Value) -> Result<(), String> {
    let found = found(case);
    if found == case["expect"] {
        Ok(())
    } else {
        Err(format!("expected {}, got {found}", case["expect"]))
    }
}

/// `env` is what the variable holds; null is unset, which the SDK treats like empty.
pub(crate) fn found(case: &Value) -> Value {
    let bytes = case["env"].as_str().unwrap_or_default().as_bytes();
    match load(bytes) {
        Ok((question, endpoint)) => json!({"ok": describe(&question, &endpoint)}),
        Err(error) => json!({"error": {"class": class(&error)}}),
    }
}

fn load(bytes: &[u8]) -> Result<(Question, Endpoint), QuestionError> {
    let question = Question::from_bytes(bytes)?;
    let endpoint = question.require_endpoint()?;
    Ok((question, endpoint))
}

fn describe(question: &Question, endpoint: &Endpoint) -> Value {
    let mut found = json!({
        // An endpoint has no place for a credential.
        "anonymous": true,
        "apiVersion": question.version().api_version(),
        "server": endpoint.server(),
        "tlsServerName": endpoint.tls_server_name(),
        "insecure": endpoint.insecure(),
        "caData": STANDARD.encode(endpoint.authorities_pem()),
        "disableCompression": !endpoint.compression(),
    });
    if let Some(proxy) = endpoint.proxy() {
        found["proxyURL"] = proxy.text().into();
    }
    found
}

fn class(error: &QuestionError) -> &'static str {
    match error {
        QuestionError::Missing => "env_missing",
        QuestionError::Decode(_) => "decode",
        QuestionError::WrongKind => "wrong_kind",
        QuestionError::NoCluster => "no_cluster_info",
        QuestionError::BadCluster(_) => "bad_cluster",
        _ => "unknown",
    }
}
