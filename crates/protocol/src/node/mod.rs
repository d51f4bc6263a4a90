//! YAML and JSON documents as a tree of [`Node`]s that remember where they stood.

mod budget;
mod decode;
mod json;
mod layout;
mod yaml;

use std::fmt;

use zeroize::Zeroizing;

pub use decode::DecodeError;
pub use layout::{Layout, Place};

use crate::{Secret, json::push_list, text::sounds_secret};

/// How deep lists and mappings may stand in each other. The reference stops at 10,000; nobody
/// writes such a document, and every walk over the tree would need as many stack frames: 500 levels
/// overflow a thread of 2 MB in a program that is not optimised.
pub const MAX_DEPTH: usize = 200;

/// How many repeated keys are reported: one is enough to reject a document.
const MOST_REPEATS: usize = 1000;

/// A value and the place it was read from.
#[derive(Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Line, counted from 1; 0 when unknown.
    pub line: u32,
    /// Column, counted from 1; 0 when unknown.
    pub column: u32,
    /// How JSON spelt the text.
    spelling: Spelling,
}

/// A text of JSON as it was written, between its quotes, if there were escapes in it. The
/// reference hands on such a text unchanged, so `to_json` must be able to.
type Spelling = Option<Box<Zeroizing<String>>>;

/// What a [`Node`] holds, after YAML 1.1 resolution as go-yaml does it.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, in the text that the reference would print for it in JSON.
    Number(String),
    /// A text. It may be secret, which is why it is wiped and `Debug` does not show it.
    Text(Zeroizing<String>),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping. From YAML: sorted by key, keys unique (the last duplicate won), which is what
    /// the reference makes of it. From JSON: as written, duplicates included; [`Node::get`] finds
    /// the last.
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
    /// How JSON spelt the key.
    spelling: Spelling,
}

/// A key that stands in its mapping for the second time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeat {
    /// The key.
    pub key: String,
    /// Line of the later one.
    pub line: u32,
    /// Line of the one before it.
    pub first: u32,
}

/// Why a document could not be read. It tells the place and the kind of fault, never the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, in a few words.
    pub what: String,
    /// Line, counted from 1.
    pub line: u32,
    /// Column, counted from 1.
    pub column: u32,
}

impl Node {
    /// Reads the first document of a YAML 1.1 stream as go-yaml does: last duplicate key wins,
    /// merge keys, aliases within a budget, a byte order mark ignored. Empty input is `Null`.
    ///
    /// Fails for a document that would take more than 8 MB and 20 times its size in memory.
    pub fn from_yaml(bytes: &[u8]) -> Result<Self, SyntaxError> {
        yaml::read(bytes).map(|(node, _)| node)
    }

    /// Reads YAML in the plain block style that programs write, and hands each item of a list in the
    /// outermost mapping to `take`, with the list's key; what `take` gives back stays in the list. So
    /// a list of ten thousand never stands in memory as nodes.
    ///
    /// `None` for any other style, which may only show after items have been taken: they count for
    /// nothing then, and [`Node::from_yaml`] reads the text.
    pub fn from_plain_yaml(
        bytes: &[u8],
        take: impl FnMut(&str, Self) -> Option<Self>,
    ) -> Option<Self> {
        yaml::read_items(bytes, take)
    }

    /// Reads one JSON value, and nothing but white space after it, as Go's `encoding/json` does.
    ///
    /// Fails for a document that would take more than 8 MB and 20 times its size in memory.
    pub fn from_json(bytes: &[u8]) -> Result<Self, SyntaxError> {
        json::read(bytes)
    }

    /// Reads JSON when the first character that is not blank is `{`, else YAML: what the
    /// reference does with a plugin's answer or a kuberc.
    pub fn from_json_or_yaml(bytes: &[u8]) -> Result<Self, SyntaxError> {
        if looks_like_json(bytes) { Self::from_json(bytes) } else { Self::from_yaml(bytes) }
    }

    /// Like [`Node::from_json_or_yaml`], and tells every key that a mapping has more than once, for
    /// readers that take no repeated fields.
    pub fn from_json_or_yaml_strictly(bytes: &[u8]) -> Result<(Self, Vec<Repeat>), SyntaxError> {
        if !looks_like_json(bytes) {
            return yaml::read(bytes);
        }
        let node = Self::from_json(bytes)?;
        let mut repeats = Vec::new();
        node.repeats(&mut repeats);
        Ok((node, repeats))
    }

    fn repeats(&self, found: &mut Vec<Repeat>) {
        match &self.value {
            Value::List(items) => items.iter().for_each(|item| item.repeats(found)),
            Value::Map(entries) => {
                let mut repeated = repeated(entries).into_iter().peekable();
                for (index, entry) in entries.iter().enumerate() {
                    if let Some((_, first)) = repeated.next_if(|(later, _)| *later == index)
                        && found.len() < MOST_REPEATS
                    {
                        found.push(Repeat { key: entry.key.clone(), line: entry.line, first });
                    }
                    entry.value.repeats(found);
                }
            }
            _ => {}
        }
    }

    /// Every text below a name that sounds secret, however deep, so that it can be hidden.
    pub fn secrets(&self) -> Vec<Secret> {
        let mut found = Vec::new();
        self.collect_secrets(false, &mut found);
        found
    }

    fn collect_secrets(&self, secret: bool, found: &mut Vec<Secret>) {
        match &self.value {
            Value::Text(text) if secret => found.push(Secret::new(text.as_str())),
            Value::List(items) => {
                for item in items {
                    item.collect_secrets(secret, found);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let secret = secret || sounds_secret(&entry.key);
                    entry.value.collect_secrets(secret, found);
                }
            }
            _ => {}
        }
    }

    /// A value of our own, that stood nowhere.
    pub fn new(value: Value) -> Self {
        Self::at(value, 0, 0)
    }

    fn at(value: Value, line: u32, column: u32) -> Self {
        Self { value, line, column, spelling: None }
    }

    /// The value of `key` in a mapping; the last one where JSON repeated the key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The value of `key` in a mapping, to be changed; the last one where JSON repeated the key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Map(entries) => {
                entries.iter_mut().rfind(|entry| entry.key == key).map(|entry| &mut entry.value)
            }
            _ => None,
        }
    }

    /// The entry of `key` in a mapping, for the place of the key itself.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().rfind(|entry| entry.key == key)
    }

    /// The entries of a mapping; none of anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The node as compact JSON in the reference's form (IN-08): what was read from YAML has its
    /// keys sorted and its numbers reprinted, what was read from JSON keeps both as they were;
    /// `<`, `>` and `&` are escaped.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.push_json(&mut out);
        out
    }

    /// Appends what [`Node::to_json`] returns.
    pub(crate) fn push_json(&self, out: &mut String) {
        match &self.value {
            Value::Null => out.push_str("null"),
            Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Value::Number(text) => out.push_str(text),
            Value::Text(text) => push_spelt(out, text, &self.spelling),
            Value::List(items) => push_list(out, items, |out, item| item.push_json(out)),
            Value::Map(entries) => {
                out.push('{');
                for (index, entry) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    push_spelt(out, &entry.key, &entry.spelling);
                    out.push(':');
                    entry.value.push_json(out);
                }
                out.push('}');
            }
        }
    }
}

fn push_spelt(out: &mut String, text: &str, spelling: &Spelling) {
    match spelling {
        None => crate::json::push_text(out, text),
        Some(spelling) => crate::json::push_spelt(out, spelling),
    }
}

/// Finds entries whose key an earlier entry has, and the line of the last such entry, in order.
fn repeated(entries: &[Entry]) -> Vec<(usize, u32)> {
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_unstable_by_key(|index| (entries[*index].key.as_str(), *index));
    let pairs = order.windows(2).filter(|pair| entries[pair[0]].key == entries[pair[1]].key);
    let mut found: Vec<_> = pairs.map(|pair| (pair[1], entries[pair[0]].line)).collect();
    found.sort_unstable();
    found
}

/// Whether the reference would take `bytes` for JSON: the first thing that is not white space, in
/// Unicode's sense, is an opening brace.
pub(crate) fn looks_like_json(bytes: &[u8]) -> bool {
    let first = bytes.utf8_chunks().next();
    first.is_some_and(|chunk| chunk.valid().trim_start().starts_with('{'))
}

impl Value {
    /// What it is, in one word for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "text",
            Self::List(_) => "list",
            Self::Map(_) => "mapping",
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.value.kind(), self.line, self.column)
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}, column {})", self.what, self.line, self.column)
    }
}

impl std::error::Error for SyntaxError {}

#[cfg(test)]
mod tests;
