//! YAML and JSON documents as a tree of [`Node`]s that remember where they stood.

use std::fmt;

/// A value and the place it was read from.
#[derive(Clone, PartialEq)]
pub struct Node {
    /// What stands there.
    pub value: Value,
    /// Line, counted from 1; 0 when unknown.
    pub line: u32,
    /// Column, counted from 1; 0 when unknown.
    pub column: u32,
}

/// What a [`Node`] holds, after YAML 1.1 resolution as go-yaml does it.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, in the text that the reference would print for it in JSON.
    Number(String),
    /// A text. It may be secret, which is why `Debug` does not show it.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in document order, keys unique (the last duplicate won).
    Map(Vec<Entry>),
}

/// One key of a mapping.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// The key, as the text that JSON would have.
    pub key: String,
    /// Line of the key.
    pub line: u32,
    /// What it stands for.
    pub value: Node,
}

/// Why a document could not be read. It tells the place and the kind of fault, never the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, in a few words of our own.
    pub what: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Column, counted from 1.
    pub column: u32,
}

impl Node {
    /// Reads the first document of a YAML 1.1 stream as go-yaml does: last duplicate key wins,
    /// merge keys, aliases within a budget, a byte order mark ignored. Empty input is `Null`.
    pub fn from_yaml(_bytes: &[u8]) -> Result<Self, SyntaxError> {
        todo!()
    }

    /// Reads one JSON value, and nothing but white space after it, as Go's `encoding/json` does.
    pub fn from_json(_bytes: &[u8]) -> Result<Self, SyntaxError> {
        todo!()
    }

    /// Reads JSON when the first byte that is not blank is `{`, else YAML: what the reference
    /// does with an answer or a kubeconfig.
    pub fn from_json_or_yaml(_bytes: &[u8]) -> Result<Self, SyntaxError> {
        todo!()
    }

    /// The value of `key` in a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.value),
            _ => None,
        }
    }

    /// The node as compact JSON in the reference's form: keys sorted, numbers reprinted, `<`, `>`
    /// and `&` escaped (IN-08).
    pub fn to_json(&self) -> String {
        todo!()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Text(_) => "text",
            Value::List(_) => "list",
            Value::Map(_) => "map",
        };
        write!(f, "{kind} at {}:{}", self.line, self.column)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}, column {})", self.what, self.line, self.column)
    }
}

impl std::error::Error for SyntaxError {}
