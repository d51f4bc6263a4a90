//! The types of a message's fields. The reference checks all of them, used or not.

use super::{
    Version,
    envelope::{Detail, Fault},
};
use crate::{
    Node,
    node::{DecodeError, Value},
    time,
};

/// What a field must be. `null` always stands for its absence.
pub(super) enum Shape {
    Text,
    Flag,
    Integer,
    /// Base64, or a list of numbers.
    Bytes,
    Time,
    /// Lists of texts by name.
    Header,
    /// Known fields; others are ignored.
    Object(&'static [(&'static str, Shape)]),
}

const CLUSTER: &[(&str, Shape)] = &[
    ("server", Shape::Text),
    ("tls-server-name", Shape::Text),
    ("insecure-skip-tls-verify", Shape::Flag),
    ("certificate-authority-data", Shape::Bytes),
    ("proxy-url", Shape::Text),
    ("disable-compression", Shape::Flag),
];

const STATUS: &[(&str, Shape)] = &[
    ("expirationTimestamp", Shape::Time),
    ("token", Shape::Text),
    ("clientCertificateData", Shape::Text),
    ("clientKeyData", Shape::Text),
];

const RESPONSE: &[(&str, Shape)] = &[("header", Shape::Header), ("code", Shape::Integer)];

const MESSAGE: &[(&str, Shape)] = &[
    ("spec", Shape::Object(&[("cluster", Shape::Object(CLUSTER)), ("interactive", Shape::Flag)])),
    ("status", Shape::Object(STATUS)),
];

/// The later versions' fields, and those of the original proposal at top level.
const ALPHA_MESSAGE: &[(&str, Shape)] = &[
    (
        "spec",
        Shape::Object(&[
            ("cluster", Shape::Object(CLUSTER)),
            ("interactive", Shape::Flag),
            ("response", Shape::Object(RESPONSE)),
        ]),
    ),
    ("status", Shape::Object(STATUS)),
    ("interactive", Shape::Flag),
    ("response", Shape::Object(RESPONSE)),
    ("token", Shape::Text),
    ("clientCertificateData", Shape::Text),
    ("clientKeyData", Shape::Text),
    ("expiry", Shape::Integer),
];

/// Checks every field of a message. A time that is wrong is reported before all else, then the
/// first field of the wrong type, which is the order of the reference.
pub(super) fn check(message: &Node, version: Version) -> Result<(), Fault> {
    let fields = match version {
        Version::V1Alpha1 => ALPHA_MESSAGE,
        Version::V1Beta1 | Version::V1 => MESSAGE,
    };
    let mut first = None;
    object(message, fields, "", &mut first)?;
    match first {
        Some(error) => Err(field(&error)),
        None => Ok(()),
    }
}

/// Checks a node; the first wrong type goes to `first`, a wrong time ends it at once.
fn visit(
    node: &Node,
    shape: &Shape,
    path: &str,
    first: &mut Option<DecodeError>,
) -> Result<(), Fault> {
    let outcome = match shape {
        Shape::Text => node.text(path).map(drop),
        Shape::Flag => node.bool(path).map(drop),
        Shape::Integer => node.integer(path).map(drop),
        Shape::Bytes => node.bytes(path).map(drop),
        Shape::Header => header(node, path),
        Shape::Time => return moment(node, path),
        Shape::Object(fields) => return object(node, fields, path, first),
    };
    if let Err(error) = outcome {
        first.get_or_insert(error);
    }
    Ok(())
}

fn object(
    node: &Node,
    fields: &[(&'static str, Shape)],
    path: &str,
    first: &mut Option<DecodeError>,
) -> Result<(), Fault> {
    let entries = match node.map(path) {
        Ok(entries) => entries.unwrap_or_default(),
        Err(error) => {
            first.get_or_insert(error);
            return Ok(());
        }
    };
    for entry in entries {
        let Some((name, shape)) = fields.iter().find(|(name, _)| *name == entry.key) else {
            continue;
        };
        let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") };
        visit(&entry.value, shape, &path, first)?;
    }
    Ok(())
}

fn moment(node: &Node, path: &str) -> Result<(), Fault> {
    const FORM: &str = "a time of RFC 3339 such as `2030-01-31T12:00:00Z`";
    match &node.value {
        Value::Null => Ok(()),
        Value::Text(text) if time::parse_rfc3339(text).is_some() => Ok(()),
        Value::Text(_) => {
            let what = format!(
                "`{path}` must be {FORM}, which this text is not (line {}, column {})",
                node.line, node.column
            );
            Err(Fault { what, detail: Detail::Timestamp })
        }
        _ => Err(field(&node.mismatch(path, FORM))),
    }
}

fn header(node: &Node, path: &str) -> Result<(), DecodeError> {
    for entry in node.map(path)?.unwrap_or_default() {
        for value in entry.value.list(path)?.unwrap_or_default() {
            value.text(path)?;
        }
    }
    Ok(())
}

fn field(error: &DecodeError) -> Fault {
    Fault { what: error.to_string(), detail: Detail::FieldType }
}
