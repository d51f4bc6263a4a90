//! Typed views of a [`Node`], with errors that name the field and the place but never the value.

use std::fmt;

use super::{Entry, Node, SyntaxError, Value};
use crate::text::from_base64;

/// A field that is not of the type it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// Names the field, what it must be, and what it is instead.
    pub what: String,
    /// Line of the value, counted from 1; 0 when unknown.
    pub line: u32,
    /// Column of the value, counted from 1; 0 when unknown.
    pub column: u32,
}

/// Each view takes the field's path as messages should show it, and is `None` for `null`, which
/// everywhere in Kubernetes' documents means the same as leaving the field out.
impl Node {
    /// A text.
    pub fn text(&self, field: &str) -> Result<Option<&str>, DecodeError> {
        match &self.value {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            _ => Err(self.mismatch(field, "a text")),
        }
    }

    /// The text of a field of this mapping, under its own name; `None` if there is no such field.
    pub(crate) fn text_of(&self, field: &str) -> Result<Option<&str>, DecodeError> {
        self.get(field).map_or(Ok(None), |value| value.text(field))
    }

    /// The entries of a mapping that is a field of this one, under its own name; none if there is no such
    /// field.
    pub(crate) fn map_of(&self, field: &str) -> Result<&[Entry], DecodeError> {
        let entries = self.get(field).map_or(Ok(None), |value| value.map(field))?;
        Ok(entries.unwrap_or_default())
    }

    /// The text, if it is one, for readers to whom everything else is as good as nothing.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A boolean.
    pub fn bool(&self, field: &str) -> Result<Option<bool>, DecodeError> {
        match &self.value {
            Value::Null => Ok(None),
            Value::Bool(value) => Ok(Some(*value)),
            _ => Err(self.mismatch(field, "`true` or `false`")),
        }
    }

    /// A whole number.
    pub fn integer(&self, field: &str) -> Result<Option<i64>, DecodeError> {
        match &self.value {
            Value::Null => Ok(None),
            Value::Number(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(self.mismatch(field, "a whole number of 64 bits")),
            },
            _ => Err(self.mismatch(field, "a whole number")),
        }
    }

    /// Bytes in base64, or as a list of numbers, which Go reads too; none for `null`.
    pub fn bytes(&self, field: &str) -> Result<Vec<u8>, DecodeError> {
        let bytes = match &self.value {
            Value::Null => Some(Vec::new()),
            Value::Text(text) => from_base64(text.as_bytes()),
            Value::List(items) => items
                .iter()
                .map(|item| match &item.value {
                    Value::Null => Some(0),
                    Value::Number(text) => text.parse().ok(),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        bytes.ok_or_else(|| self.mismatch(field, "base64"))
    }

    /// A list.
    pub fn list(&self, field: &str) -> Result<Option<&[Node]>, DecodeError> {
        match &self.value {
            Value::Null => Ok(None),
            Value::List(items) => Ok(Some(items)),
            _ => Err(self.mismatch(field, "a list")),
        }
    }

    /// A mapping.
    pub fn map(&self, field: &str) -> Result<Option<&[Entry]>, DecodeError> {
        match &self.value {
            Value::Null => Ok(None),
            Value::Map(entries) => Ok(Some(entries)),
            _ => Err(self.mismatch(field, "a mapping")),
        }
    }

    /// The error for a value that must be `expected` and is not.
    pub fn mismatch(&self, field: &str, expected: &str) -> DecodeError {
        let found = match &self.value {
            Value::Null => "null".to_owned(),
            other => format!("a {}", other.kind()),
        };
        // The most common mistake by far, and the least visible one.
        let quotes = match &self.value {
            Value::Number(_) | Value::Bool(_) if expected == "a text" => " (quotes are missing)",
            _ => "",
        };
        DecodeError {
            what: format!("`{field}` must be {expected}, not {found}{quotes}"),
            line: self.line,
            column: self.column,
        }
    }
}

/// A text that is no document at all is one way not to be decoded.
impl From<SyntaxError> for DecodeError {
    fn from(SyntaxError { what, line, column }: SyntaxError) -> Self {
        Self { what, line, column }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if self.line == 0 {
            return Ok(());
        }
        write!(f, " (line {}, column {})", self.line, self.column)
    }
}

impl std::error::Error for DecodeError {}
