//! The external signer protocol: `external-signer.authentication.k8s.io/v1alpha1`.
//!
//! A client asks a plugin for a certificate and, during a handshake, for a signature; the key stays
//! where the plugin has it. A [`Request`] travels in the environment of a plugin that is run for
//! it, or as one line on the stdin of a plugin that stays; a [`Response`] comes back on stdout.

mod configuration;
mod options;
mod request;
mod response;

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{Node, json::Object, node::DecodeError};

pub use configuration::{Configuration, pins};
pub use options::{Hash, Options};
pub use request::{Request, SignRequest};
pub use response::{CertificateResponse, ErrorResponse, Reason, Response};

/// The name of the variable that carries the request.
pub const REQUEST_VARIABLE: &str = "EXTERNAL_SIGNER_PLUGIN_CONFIG";

/// The one `apiVersion` of the protocol.
pub const API_VERSION: &str = "external-signer.authentication.k8s.io/v1alpha1";

/// The longest line that either side of a resident talk accepts: what one environment variable
/// could hold on Linux, so that both modes carry the same messages.
pub const MAX_LINE: usize = 128 * 1024;

/// Why a message was not accepted. No variant carries text of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// There is no text.
    Empty,
    /// Not JSON, or a field is missing or of the wrong form; what and where, in our words.
    Unreadable(String),
    /// Another `apiVersion` than ours.
    Version,
    /// An unknown `kind`.
    Kind,
}

/// The document in `bytes` and its `kind`, after a look at its `apiVersion`.
fn open(bytes: &[u8]) -> Result<(Node, String), MessageError> {
    if bytes.trim_ascii().is_empty() {
        return Err(MessageError::Empty);
    }
    let node = Node::from_json(bytes).map_err(|e| MessageError::Unreadable(e.to_string()))?;
    node.map("the message")?;
    if node.text_of("apiVersion")? != Some(API_VERSION) {
        return Err(MessageError::Version);
    }
    let kind = required(&node, "kind")?.to_owned();
    Ok((node, kind))
}

/// The beginning of a message, before its fields.
fn begin<'a>(out: &'a mut String, kind: &str) -> Object<'a> {
    let mut object = Object::open(out);
    object.text("apiVersion", API_VERSION).text("kind", kind);
    object
}

fn required<'a>(node: &'a Node, field: &str) -> Result<&'a str, MessageError> {
    match node.text_of(field)? {
        Some(text) if !text.is_empty() => Ok(text),
        _ => Err(MessageError::Unreadable(format!("`{field}` is missing"))),
    }
}

/// Bytes in standard Base64, with its padding; line breaks are skipped, as Go does.
fn bytes(node: &Node, field: &str) -> Result<Vec<u8>, MessageError> {
    let text = node.text(field)?.unwrap_or_default();
    let packed: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match STANDARD.decode(packed) {
        Ok(bytes) if bytes.is_empty() => {
            Err(MessageError::Unreadable(format!("`{field}` is empty")))
        }
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(MessageError::Unreadable(format!(
            "`{field}` must be standard Base64, which this text is not (line {}, column {})",
            node.line, node.column
        ))),
    }
}

fn required_bytes(node: &Node, field: &str) -> Result<Vec<u8>, MessageError> {
    match node.get(field) {
        Some(value) if !value.is_null() => bytes(value, field),
        _ => Err(MessageError::Unreadable(format!("`{field}` is missing"))),
    }
}

impl From<DecodeError> for MessageError {
    fn from(error: DecodeError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no message"),
            Self::Unreadable(what) => f.write_str(what),
            Self::Version => write!(f, "`apiVersion` is not `{API_VERSION}`"),
            Self::Kind => f.write_str("`kind` is not one that belongs here"),
        }
    }
}

impl std::error::Error for MessageError {}

#[cfg(test)]
mod tests;
