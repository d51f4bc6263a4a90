//! What a message says it is: `kind` and `apiVersion`, read as the reference reads them.

use super::{GROUP, Version};
use crate::{
    Node,
    node::{DecodeError, Value},
    text::same_name,
};

/// Finer classes of a message that could not be decoded, named as the vectors name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// Neither JSON nor YAML.
    Syntax,
    /// Not an object, or `kind`/`apiVersion` are not texts.
    NotAnObject,
    /// A kind or group that is not ours.
    UnknownType,
    /// Another kind that the reference knows in our group, or everywhere.
    OtherType,
    /// A field of the wrong type.
    FieldType,
    /// An `expirationTimestamp` that is not RFC 3339.
    Timestamp,
    /// An `apiVersion` with too many parts.
    BadApiVersion,
}

/// What is wrong with a message and where, in our words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) what: String,
    pub(super) detail: Detail,
}

/// `kind` and `apiVersion`, each empty when it is missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    pub(super) kind: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
}

impl<'a> Envelope<'a> {
    /// Reads both, whatever the case of their names, the last of each.
    pub(super) fn read(node: &'a Node) -> Result<Self, Fault> {
        let fault =
            |error: DecodeError| Fault { what: error.to_string(), detail: Detail::NotAnObject };
        if !matches!(node.value, Value::Map(_) | Value::Null) {
            let expected = "an object with `kind` and `apiVersion`";
            return Err(fault(node.mismatch("the document", expected)));
        }
        let (mut kind, mut api_version) = ("", "");
        for entry in node.entries() {
            let text = |name| entry.value.text(name).map_err(fault);
            if same_name(&entry.key, "kind") {
                kind = text("kind")?.unwrap_or(kind);
            } else if same_name(&entry.key, "apiversion") {
                api_version = text("apiVersion")?.unwrap_or(api_version);
            }
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if version.contains('/') {
            let what = "`apiVersion` has more than one `/`".to_owned();
            return Err(Fault { what, detail: Detail::BadApiVersion });
        }
        Ok(Self { kind, group, version })
    }

    /// The version, if it is one of ours.
    pub(super) fn version(&self) -> Option<Version> {
        if self.group != GROUP {
            return None;
        }
        Version::ALL.into_iter().find(|version| version.name() == self.version)
    }

    /// What is wrong with a version that is not one of ours.
    pub(super) fn unknown_version(&self) -> &'static str {
        if self.group == GROUP {
            "`apiVersion` is of a version we do not know"
        } else {
            "`apiVersion` is not of `client.authentication.k8s.io`"
        }
    }

    /// Whether it is one of the types that the reference registers besides its own: what is
    /// printed then is well-formed, but not an answer.
    pub(super) fn is_foreign(&self) -> bool {
        /// Registered with each version of the group.
        const OPTIONS: [&str; 6] = [
            "CreateOptions",
            "DeleteOptions",
            "GetOptions",
            "ListOptions",
            "PatchOptions",
            "UpdateOptions",
        ];
        /// Known under any `apiVersion` that has a version at all.
        const UNVERSIONED: [&str; 5] =
            ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];
        let kind = self.kind;
        let ours = matches!(self.version(), Some(Version::V1 | Version::V1Beta1));
        let some = !self.version.is_empty() || self.is_unversioned();
        UNVERSIONED.contains(&kind) && some
            || OPTIONS.contains(&kind) && ours
            || kind == "WatchEvent" && (ours || self.is_unversioned())
    }

    /// Whether the reference would take it for its own internal version: the version is missing,
    /// or named so.
    pub(super) fn is_unversioned(&self) -> bool {
        match self.version {
            "" => self.group.is_empty() || self.group == GROUP,
            "__internal" => self.group == GROUP,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_known_everywhere_needs_a_version_all_the_same() {
        for (group, version, known) in
            [("o", "v1", true), ("", "", true), (GROUP, "", true), ("o", "", false)]
        {
            let envelope = Envelope { kind: "APIVersions", group, version };
            assert_eq!(envelope.is_foreign(), known, "{envelope:?}");
        }
    }
}
