//! A secret that can be searched for.

use keyward_protocol::{Node, node::Value, text::sounds_secret};

/// Stands for every secret of the corpora. Fuzzers know it as a word, so it gets to new places.
pub const MARK: &str = "s3cr3t-MARK";

/// Panics if `shown` has the mark in it, wherever that stood in the input.
pub(crate) fn hidden(shown: &str) {
    assert!(!shown.contains(MARK), "a secret is shown: {shown}");
}

/// Panics if `shown` has the mark in it and the document had it in secret places only: below a key
/// of secrets, or anywhere if it is no document at all.
pub(crate) fn hidden_if_secret(document: &[u8], shown: &str) {
    if !shown.contains(MARK) {
        return;
    }
    // A kubeconfig is always YAML, even where it looks like JSON.
    let nodes = [Node::from_json_or_yaml(document), Node::from_yaml(document)];
    let public = nodes.iter().flatten().any(|node| shows(node, false));
    assert!(public, "a secret is shown: {shown}");
}

/// Whether the mark is in a key, or in a text that is not below a key of secrets.
fn shows(node: &Node, secret: bool) -> bool {
    match &node.value {
        Value::Text(text) => !secret && text.contains(MARK),
        Value::List(items) => items.iter().any(|item| shows(item, secret)),
        Value::Map(entries) => entries.iter().any(|entry| {
            let secret = secret || is_secret(&entry.key);
            entry.key.contains(MARK) || shows(&entry.value, secret)
        }),
        _ => false,
    }
}

fn is_secret(key: &str) -> bool {
    matches!(key, "auth" | "client-key-data" | "clientKeyData" | "pin" | "value")
        || sounds_secret(key) && !matches!(key, "tokenFile" | "tokenAttributes")
}
