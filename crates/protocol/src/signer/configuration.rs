use std::{collections::BTreeMap, fmt};

use super::MessageError;
use crate::{Node, Secret, json::push_text};

/// What the kubeconfig says to the plugin: texts by name, all of them handed on unchanged.
///
/// Any value may be a PIN, so `Debug` shows the names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Configuration(BTreeMap<String, Secret>);

impl Configuration {
    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Secret::expose)
    }

    /// Sets a value, over an older one.
    pub fn set(&mut self, name: impl Into<String>, value: Secret) {
        self.0.insert(name.into(), value);
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn read(message: &Node) -> Result<Self, MessageError> {
        let mut read = Self::default();
        let Some(node) = message.get("configuration") else { return Ok(read) };
        for entry in node.map("configuration")?.unwrap_or_default() {
            let field = format!("configuration.{}", entry.key);
            let value = entry.value.text(&field)?.unwrap_or_default();
            read.set(&entry.key, Secret::new(value));
        }
        Ok(read)
    }

    pub(super) fn push_json(&self, out: &mut String) {
        out.push('{');
        for (index, (name, value)) in self.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            push_text(out, name);
            out.push(':');
            push_text(out, value.expose());
        }
        out.push('}');
    }

    /// More bytes than its JSON can take.
    pub(super) fn length(&self) -> usize {
        self.iter().map(|(name, value)| 6 * (name.len() + value.expose().len()) + 8).sum()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Configuration {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(entries: T) -> Self {
        Self(entries.into_iter().map(|(name, value)| (name.into(), Secret::new(value))).collect())
    }
}

impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
