//! JSON into nodes: accepted exactly where another reader accepts it, and written as it was read.

use keyward_protocol::{
    Node,
    node::{MAX_DEPTH, Value},
};
use serde::de::IgnoredAny;

use crate::{budget, mark};

pub(crate) fn check(input: &[u8]) {
    let read = budget::within(input, || Node::from_json(input));
    agree(input, read.is_ok());
    let node = match read {
        Ok(node) => node,
        Err(error) => return mark::hidden(&format!("{error} {error:?}")),
    };
    mark::hidden(&format!("{node:?}"));
    let written = node.to_json();
    let again = Node::from_json(written.as_bytes()).expect("it was written by us");
    assert!(same(&node, &again), "another document after writing");
    assert_eq!(again.to_json(), written);
    // The strict reader is the same reader, and knows about repeated keys besides.
    if let Ok((strict, repeats)) = Node::from_json_or_yaml_strictly(input)
        && matches!(node.value, Value::Map(_))
    {
        assert!(same(&node, &strict));
        assert_eq!(repeats.is_empty(), !repeated(&node));
    }
}

/// Whether two documents say the same, wherever it stands in them.
pub(crate) fn same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::List(one), Value::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| one.key == other.key && same(&one.value, &other.value))
        }
        (one, other) => one == other,
    }
}

/// Where both can read a text, they agree on whether it is JSON. The other reader has no limit of
/// depth here, and takes no bytes that are not UTF-8.
fn agree(input: &[u8], accepted: bool) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > MAX_DEPTH {
        return;
    }
    let other = serde_json::from_str::<IgnoredAny>(text).is_ok();
    assert_eq!(accepted, other, "one of two readers takes it for JSON");
}

fn repeated(node: &Node) -> bool {
    match &node.value {
        Value::List(items) => items.iter().any(repeated),
        Value::Map(entries) => {
            let mut keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
            keys.sort_unstable();
            keys.windows(2).any(|pair| pair[0] == pair[1])
                || entries.iter().any(|entry| repeated(&entry.value))
        }
        _ => false,
    }
}
