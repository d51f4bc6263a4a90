//! What a plugin answers.

use std::fmt;

use jiff::Timestamp;
use zeroize::Zeroizing;

use super::{
    Detail, Form, Version,
    envelope::{Envelope, Fault},
    shape,
};
use crate::{
    Node, Secret,
    json::Object,
    node::{self, DecodeError, Entry, Value},
    time,
};

/// What a plugin answered, decoded but not yet checked against a key pair or a clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The version of the answer.
    pub version: Version,
    /// Bearer token, verbatim.
    pub token: Option<Secret>,
    /// Certificate chain in PEM, leaf first, and its key in PEM.
    pub pair: Option<PemPair>,
    /// Until when it may be kept; `None` is for the life of the process.
    pub expires: Option<Timestamp>,
}

/// A certificate chain with its key, in PEM, as they came.
#[derive(Debug, Clone, PartialEq)]
pub struct PemPair {
    /// The chain, leaf first.
    pub certificate: String,
    /// The key of the leaf.
    pub key: Secret,
}

/// Why an answer was not accepted. No variant carries text of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerError {
    /// Nothing was printed (the reference calls this a version mismatch, D8).
    Empty,
    /// Not a document, or a field of the wrong type.
    Decode {
        /// What is wrong and where, in our words.
        what: String,
        /// The class of the fault.
        detail: Detail,
    },
    /// Another version than the one asked for.
    VersionMismatch {
        /// The version asked for.
        asked: Version,
        /// The version found, if it is one of ours.
        found: Option<Version>,
    },
    /// No `status`.
    MissingStatus,
    /// No `status`, but credentials at top level, which only v1alpha1 knows.
    OldForm,
    /// A `status` with neither token nor pair.
    MissingCredentials,
    /// A certificate without key or a key without certificate.
    PartialPair,
}

impl Answer {
    /// Reads what a plugin printed (JSON or YAML) when asked in `version`, as the reference does.
    /// Under v1alpha1 the form of the original proposal is accepted too.
    pub fn read(stdout: &[u8], version: Version) -> Result<Self, AnswerError> {
        if stdout.trim_ascii().is_empty() {
            return Err(AnswerError::Empty);
        }
        let unreadable = |what: String, detail| {
            let what = if follows_talk(stdout) { TALK.to_owned() } else { what };
            AnswerError::Decode { what, detail }
        };
        let message = Node::from_json_or_yaml(stdout)
            .map_err(|error| unreadable(error.to_string(), Detail::Syntax))?;
        let envelope =
            Envelope::read(&message).map_err(|fault| unreadable(fault.what, fault.detail))?;
        let found = check_type(&envelope, &message, version)?;
        if found != Some(version) {
            return Err(AnswerError::VersionMismatch { asked: version, found });
        }
        let mut status = Status::of(&message);
        let flat = Status::flat(&message);
        if version == Version::V1Alpha1 && status.is_none() && flat.is_some() {
            status = flat;
        } else if status.is_none() && flat.is_some() {
            return Err(AnswerError::OldForm);
        }
        status.ok_or(AnswerError::MissingStatus)?.answer(version)
    }

    /// The answer as a plugin prints it, in its own version, one line with its newline. `form`
    /// matters under v1alpha1 only.
    pub fn to_json(&self, form: Form) -> Secret {
        let flat = self.version == Version::V1Alpha1 && form == Form::ExecInfo;
        let mut out = Zeroizing::new(String::with_capacity(self.length()));
        let mut message = Object::open(&mut out);
        message.text("kind", if flat { "ExecCredentials" } else { "ExecCredential" });
        message.text("apiVersion", self.version.api_version());
        if flat {
            self.write_credentials(&mut message);
            if let Some(expires) = self.expires {
                message.plain("expiry", time::whole_second(expires));
            }
        } else {
            let mut status = message.object("status");
            if let Some(expires) = self.expires {
                status.text("expirationTimestamp", &time::format_rfc3339(expires));
            }
            self.write_credentials(&mut status);
            status.close();
        }
        message.close();
        out.push('\n');
        Secret::new(std::mem::take(&mut *out))
    }

    fn write_credentials(&self, object: &mut Object<'_>) {
        if let Some(token) = &self.token {
            object.text("token", token.expose());
        }
        if let Some(pair) = &self.pair {
            object.text("clientCertificateData", &pair.certificate);
            object.text("clientKeyData", pair.key.expose());
        }
    }

    /// More than the JSON of it can take, so that secrets are not moved while it is written.
    fn length(&self) -> usize {
        let token = self.token.as_ref().map_or(0, |token| token.expose().len());
        let pair = self.pair.as_ref();
        let pair = pair.map_or(0, |pair| pair.certificate.len() + pair.key.expose().len());
        512 + 6 * (token + pair)
    }
}

/// The kind and version of an answer, after a look at its fields; `None` is a version that is
/// missing or not for plugins.
fn check_type(
    envelope: &Envelope<'_>,
    message: &Node,
    asked: Version,
) -> Result<Option<Version>, AnswerError> {
    let unknown =
        |what: &str| AnswerError::Decode { what: what.to_owned(), detail: Detail::UnknownType };
    let kind = if envelope.kind.is_empty() { "ExecCredential" } else { envelope.kind };
    if envelope.is_unversioned() && kind == "ExecCredential" {
        // In the version that the reference keeps for itself these names begin with a capital.
        for name in ["Spec", "Status"] {
            if let Some(field) = message.get(name) {
                let fault = |error: DecodeError| AnswerError::Decode {
                    what: error.to_string(),
                    detail: Detail::FieldType,
                };
                field.map(name).map_err(fault)?;
            }
        }
        return Ok(None);
    }
    if envelope.is_foreign() {
        // In a `Status`, which is how servers report errors, the field of that name is a text.
        let other = |entry: &Entry| entry.key == "status" && entry.value.text("status").is_err();
        let detail = match kind {
            "Status" if message.entries().iter().any(other) => Detail::FieldType,
            _ => Detail::OtherType,
        };
        let what = "`kind` is not `ExecCredential`".to_owned();
        return Err(AnswerError::Decode { what, detail });
    }
    let version = match envelope.version() {
        Some(version) => version,
        None if envelope.is_unversioned() => return Err(unknown("`kind` is not `ExecCredential`")),
        None => return Err(unknown(envelope.unknown_version())),
    };
    match (kind, version) {
        ("ExecCredential", _) | ("ExecCredentials", Version::V1Alpha1) => {}
        ("ExecCredentials", _) => {
            return Err(unknown(
                "`kind` must be `ExecCredential`, with the credentials in `status`; \
                 `ExecCredentials` is of `v1alpha1` only",
            ));
        }
        _ => return Err(unknown("`kind` is not `ExecCredential`")),
    }
    // To whoever did not ask for it, v1alpha1 is a version like any that never was: its fields mean nothing.
    if version != Version::V1Alpha1 || asked == version {
        shape::check(message, version)?;
    }
    Ok(Some(version))
}

/// The fields of a status, before it is known whether they make sense together.
#[derive(Default)]
struct Status {
    token: Zeroizing<String>,
    certificate: Zeroizing<String>,
    key: Zeroizing<String>,
    expires: Option<Timestamp>,
}

impl Status {
    /// The status of a message whose types were checked. JSON may repeat it: a later one adds to
    /// an earlier one, `null` takes it back.
    fn of(message: &Node) -> Option<Self> {
        let mut status = None;
        for entry in message.entries().iter().filter(|entry| entry.key == "status") {
            match &entry.value.value {
                Value::Map(_) => status.get_or_insert_with(Self::default).merge(&entry.value),
                _ => status = None,
            }
        }
        status
    }

    /// Credentials at top level, where the original proposal had them.
    fn flat(message: &Node) -> Option<Self> {
        let mut status = Self::default();
        status.merge(message);
        // Here the time is a number, and zero is none.
        status.expires = message
            .get("expiry")
            .and_then(|expiry| expiry.integer("").ok().flatten())
            .filter(|seconds| *seconds != 0)
            .map(|seconds| {
                let bound = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
                Timestamp::from_second(seconds).unwrap_or(bound)
            });
        let any =
            !(status.token.is_empty() && status.certificate.is_empty() && status.key.is_empty());
        any.then_some(status)
    }

    fn merge(&mut self, node: &Node) {
        for entry in node.entries() {
            match (entry.key.as_str(), &entry.value.value) {
                ("token", Value::Text(text)) => self.token.clone_from(text),
                ("clientCertificateData", Value::Text(text)) => self.certificate.clone_from(text),
                ("clientKeyData", Value::Text(text)) => self.key.clone_from(text),
                ("expirationTimestamp", Value::Text(text)) => {
                    self.expires = time::parse_rfc3339(text);
                }
                ("expirationTimestamp", _) => self.expires = None,
                _ => {}
            }
        }
    }

    fn answer(mut self, version: Version) -> Result<Answer, AnswerError> {
        let pair = match (self.certificate.is_empty(), self.key.is_empty()) {
            (true, true) if self.token.is_empty() => return Err(AnswerError::MissingCredentials),
            (true, true) => None,
            (false, false) => {
                let certificate = std::mem::take(&mut *self.certificate);
                let key = Secret::new(std::mem::take(&mut *self.key));
                Some(PemPair { certificate, key })
            }
            _ => return Err(AnswerError::PartialPair),
        };
        Ok(Answer {
            version,
            token: (!self.token.is_empty()).then(|| Secret::new(std::mem::take(&mut *self.token))),
            pair,
            // The year 1 is how Go spells "no time", so the reference takes it for never.
            expires: self
                .expires
                .filter(|time| time.as_second() != YEAR_1 || time.subsec_nanosecond() != 0),
        })
    }
}

/// 0001-01-01T00:00:00Z
const YEAR_1: i64 = -62_135_596_800;

const TALK: &str = "something was printed before the answer; \
    nothing but the answer may go to stdout, messages belong on stderr";

/// Whether the answer seems to be there, but after lines that are no part of it.
fn follows_talk(stdout: &[u8]) -> bool {
    !node::looks_like_json(stdout)
        && stdout.split(|&byte| byte == b'\n').skip(1).any(|line| {
            line.trim_ascii_start().starts_with(b"{") || line.starts_with(b"apiVersion:")
        })
}

impl From<Fault> for AnswerError {
    fn from(fault: Fault) -> Self {
        Self::Decode { what: fault.what, detail: fault.detail }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing was printed to stdout"),
            Self::Decode { what, .. } => f.write_str(what),
            Self::VersionMismatch { asked, found: Some(found) } => write!(
                f,
                "`apiVersion` is `{}`, but `{}` was asked for",
                found.api_version(),
                asked.api_version()
            ),
            Self::VersionMismatch { asked, found: None } => {
                write!(f, "`apiVersion` is missing; `{}` was asked for", asked.api_version())
            }
            Self::MissingStatus => f.write_str("`status` is missing"),
            Self::OldForm => f.write_str(
                "the credentials stand at top level, which is for `v1alpha1`; \
                 they belong into `status`",
            ),
            Self::MissingCredentials => f.write_str(
                "`status` has neither `token` nor `clientCertificateData` with `clientKeyData`",
            ),
            Self::PartialPair => {
                f.write_str("`status` has only one of `clientCertificateData` and `clientKeyData`")
            }
        }
    }
}

impl std::error::Error for AnswerError {}
