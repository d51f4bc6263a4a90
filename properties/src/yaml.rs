//! YAML into nodes: the reader of plain documents agrees with the one that knows everything, and
//! what was read can be said again, in JSON and in YAML.

use keyward_protocol::Node;

use crate::{budget, json::same, mark};

pub(crate) fn check(input: &[u8]) {
    let read = budget::within(input, || Node::from_yaml(input));
    plain(input, read.as_ref().ok());
    let node = match read {
        Ok(node) => node,
        Err(error) => return mark::hidden(&format!("{error} {error:?}")),
    };
    mark::hidden(&format!("{node:?}"));
    let written = node.to_json();
    // Aliases may make it far larger than the input, and a deep one is read only from its own form.
    if written.len() > input.len() * 20 + 4096 {
        return;
    }
    let again = Node::from_json(written.as_bytes()).expect("it was written by us");
    assert!(same(&node, &again), "another document after writing");
}

/// The fast reader of plain block style takes a text only if the other one makes the same of it.
fn plain(input: &[u8], whole: Option<&Node>) {
    let Some(plain) = Node::from_plain_yaml(input, |_, item| Some(item)) else { return };
    // A second document, which nobody reads, is not plain: so this is read by the other one.
    let more = [input, b"\n--- &x\n"].concat();
    let other = Node::from_yaml(&more).expect("a plain document is a document");
    assert!(plain == other, "two readers of YAML differ");
    assert!(whole == Some(&plain));
}
