//! A provider in the form of the original proposal.
//!
//! The proposal's sample has `extraArgs` as a mapping, its types have a list: both are accepted.
//! They become environment variables in upper case.

use keyward_protocol::{Node, Secret, node::Value};

use super::{Draft, decode::Decoder};

pub(super) fn provider(decoder: &mut Decoder<'_>, node: &Node, field: &str) -> Draft {
    const FIELDS: &[&str] = &["kind", "apiVersion", "name", "imageMatchers", "extraArgs"];
    let mut draft = decoder.draft(None, field, node.line);
    draft.args = vec!["get-credentials".to_owned()];
    for entry in decoder.fields(node, field, FIELDS) {
        let at = format!("{field}.{}", entry.key);
        match entry.key.as_str() {
            "name" => draft.name = decoder.said(entry, &at),
            "imageMatchers" => draft.patterns = decoder.texts(entry, &at),
            "extraArgs" => draft.env = extra(decoder, &entry.value, &at),
            "apiVersion" => {
                let version = decoder.said(entry, &at);
                if !matches!(version.value.as_str(), "" | "v1alpha1") {
                    decoder.hard(version.line, at, "must be `v1alpha1`");
                }
            }
            _ => {
                let kind = decoder.said(entry, &at);
                if !matches!(kind.value.as_str(), "" | "RegistryCredentialProvider") {
                    decoder.hard(kind.line, at, "must be `RegistryCredentialProvider`");
                }
            }
        }
    }
    draft
}

fn extra(decoder: &mut Decoder<'_>, node: &Node, field: &str) -> Vec<(String, Secret)> {
    let variables = match &node.value {
        Value::Map(entries) => entries
            .iter()
            .map(|entry| {
                let value = decoder.text(&entry.value, &format!("{field}.{}", entry.key));
                (entry.key.clone(), Secret::new(value))
            })
            .collect(),
        _ => decoder.variables(node, field),
    };
    variables.into_iter().map(|(name, value)| (name.to_uppercase(), value)).collect()
}
