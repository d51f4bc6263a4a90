//! The form of the original proposal, which v1alpha1 alone has: credentials at the top of an answer, not in `status`.

use keyward_protocol::{Node, node::Entry};
use serde_json::{Value, json};

use super::BETA;
use crate::areas;

/// The credentials at the top.
const TEXTS: &[&str] = &["token", "clientCertificateData", "clientKeyData"];

/// What a v1alpha1 answer with fields of the original proposal must come to, where the reference, which ignores them, would
/// say `spoken` to the same in v1beta1. `None` for an answer without such fields.
pub(super) fn read(stdout: &str, spoken: &Value) -> Option<Value> {
    // What is wrong with the rest of it is found first.
    if spoken["error"]["class"] == "decode" {
        return None;
    }
    let message = Node::from_json_or_yaml(stdout.as_bytes()).ok()?;
    let entries = message.map("answer").ok().flatten()?;
    if entries.iter().any(is_of_wrong_type) {
        return Some(json!({ "error": { "class": "decode", "detail": "field_type" } }));
    }
    if spoken["error"]["class"] != "missing_status" {
        return None;
    }
    let mut status = serde_json::Map::new();
    for entry in entries.iter().filter(|entry| TEXTS.contains(&entry.key.as_str())) {
        if let Ok(Some(text)) = entry.value.text("") {
            status.insert(entry.key.clone(), text.into());
        }
    }
    if status.values().all(|text| text == "") {
        return None;
    }
    let message = json!({ "apiVersion": BETA, "kind": "ExecCredential", "status": status });
    // How that is read is compared with the reference elsewhere.
    let mut read =
        areas::output(&json!({ "configApiVersion": BETA, "stdout": message.to_string() }));
    if let (Some(ok), Some(expiry)) = (read.get_mut("ok"), expiry(entries)) {
        ok["expiry"] = expiry.into();
    }
    Some(read)
}

/// Here the time is a number of seconds, and zero is none.
fn expiry(entries: &[Entry]) -> Option<String> {
    let entry = entries.iter().find(|entry| entry.key == "expiry")?;
    let seconds = entry.value.integer("").ok().flatten().filter(|seconds| *seconds != 0)?;
    Some(jiff::Timestamp::from_second(seconds).ok()?.to_string())
}

fn is_of_wrong_type(entry: &Entry) -> bool {
    match entry.key.as_str() {
        "expiry" => entry.value.integer("").is_err(),
        "interactive" => entry.value.bool("").is_err(),
        "response" => entry.value.map("").is_err(),
        name => TEXTS.contains(&name) && entry.value.text("").is_err(),
    }
}
