//! An entry of the new configuration, and the text of the whole.

use std::fmt::Write as _;

use keyward_host::redact::redact;
use keyward_image::{Pattern, Reading, TokenAttributes, TokenCache, missing_ecr_names};
use keyward_protocol::{
    duration,
    image::Version,
    json,
    text::{may_be_secret, sounds_secret},
};
use serde::Serialize;

/// Providers that Keyward has one for, with its name.
const REPLACED: [(&str, &str); 4] = [
    ("ecr-credential-provider", ECR),
    ("acr-credential-provider", ACR),
    ("azure-acr-credential-provider", ACR),
    ("auth-provider-gcp", GAR),
];

pub(super) const ECR: &str = "keyward-ecr";
pub(super) const ACR: &str = "keyward-acr";
pub(super) const GAR: &str = "keyward-gar";

/// Keyward's provider that takes the place of another; `None` if there is none.
pub(super) fn replacement(name: &str, args: &[String]) -> Option<&'static str> {
    let (_, ours) = REPLACED.iter().find(|(known, _)| *known == name)?;
    // Flags for identity bindings of AKS, which `keyward-acr` refuses.
    let bound = *ours == ACR && args.iter().any(|arg| arg.starts_with("--ib-"));
    (!bound).then_some(*ours)
}

/// A provider in the new configuration. The JSON of the report has what an operator has to know of it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Entry {
    pub(super) name: String,
    /// What logs in today.
    pub(super) replaces: String,
    #[serde(skip)]
    pub(super) version: Version,
    #[serde(rename = "matchImages")]
    pub(super) patterns: Vec<String>,
    /// The patterns that the entry has and today's did not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) added: Vec<String>,
    /// How long to keep an answer without a duration, in nanoseconds.
    #[serde(skip)]
    pub(super) cache: i64,
    #[serde(skip)]
    pub(super) args: Vec<String>,
    #[serde(skip)]
    pub(super) env: Vec<(String, String)>,
    #[serde(skip)]
    pub(super) tokens: Option<TokenAttributes>,
    /// Whose login it gives, if the node's files say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<String>,
}

impl Entry {
    /// An entry that nothing in the kubelet's configuration stands for yet.
    pub(super) fn new(name: &str, replaces: &str, version: Version, cache: &str) -> Self {
        Self {
            name: name.to_owned(),
            replaces: replaces.to_owned(),
            version,
            patterns: Vec::new(),
            added: Vec::new(),
            cache: duration::parse(cache).unwrap_or_default(),
            args: Vec::new(),
            env: Vec::new(),
            tokens: None,
            identity: None,
        }
    }

    /// Adds patterns that the entry does not have yet.
    pub(super) fn match_also<T: Into<String>>(&mut self, patterns: impl IntoIterator<Item = T>) {
        for pattern in patterns.into_iter().map(Into::into) {
            if !self.patterns.contains(&pattern) {
                self.patterns.push(pattern);
            }
        }
    }

    /// Adds the other names of the registries of Amazon ECR that the entry matches.
    pub(super) fn complete(&mut self) {
        if self.name != ECR {
            return;
        }
        let parsed: Vec<_> = self.patterns.iter().filter_map(|p| Pattern::parse(p).ok()).collect();
        for (_, other) in missing_ecr_names(&parsed, Reading::Kubelet) {
            self.match_also([other]);
            self.added.push(other.to_owned());
        }
    }

    fn push(&self, out: &mut String) {
        let line = |out: &mut String, name: &str, value: &str| {
            _ = writeln!(out, "  {name}: {}", quoted(value));
        };
        _ = writeln!(out, "- name: {}", quoted(&self.name));
        line(out, "apiVersion", self.version.api_version());
        line(out, "defaultCacheDuration", &duration::format(self.cache));
        list(out, "  ", "matchImages", &self.patterns);
        list(out, "  ", "args", &self.args);
        if !self.env.is_empty() {
            out.push_str("  env:\n");
        }
        for (name, value) in &self.env {
            _ = writeln!(out, "  - name: {}\n    value: {}", quoted(name), quoted(value));
        }
        let Some(tokens) = &self.tokens else { return };
        out.push_str("  tokenAttributes:\n");
        _ = writeln!(out, "    serviceAccountTokenAudience: {}", quoted(&tokens.audience));
        let cache = match tokens.cache {
            TokenCache::Token => "Token",
            TokenCache::ServiceAccount => "ServiceAccount",
        };
        _ = writeln!(out, "    cacheType: {cache}\n    requireServiceAccount: {}", tokens.require);
        list(out, "    ", "requiredServiceAccountAnnotationKeys", &tokens.required_annotations);
        list(out, "    ", "optionalServiceAccountAnnotationKeys", &tokens.optional_annotations);
    }
}

/// The configuration with these entries.
pub(super) fn config(form: Version, entries: &[Entry]) -> String {
    let version = form.name();
    let mut out = format!(
        "apiVersion: kubelet.config.k8s.io/{version}\nkind: CredentialProviderConfig\nproviders:\n"
    );
    for entry in entries {
        entry.push(&mut out);
    }
    out
}

fn list(out: &mut String, margin: &str, name: &str, items: &[String]) {
    if !items.is_empty() {
        _ = writeln!(out, "{margin}{name}:");
    }
    for item in items {
        _ = writeln!(out, "{margin}- {}", quoted(item));
    }
}

/// A text in quotes, which YAML reads as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    json::push_text(&mut out, text);
    out
}

/// Whether the value of a variable may be a secret, which has no place in a file that everybody may read.
pub(super) fn secret_variable(name: &str, value: &str) -> bool {
    let named = sounds_secret(name) || may_be_secret(name);
    // A key of AWS may begin with a slash as well.
    let is_path = value.starts_with('/')
        && !["_KEY", "_SECRET", "_PASSWORD", "_TOKEN"].iter().any(|end| name.ends_with(end));
    let is_name = ["_NAME", "_FILE", "_PATH", "_DIR", "_URL", "_URI", "_ARN", "_REGION"]
        .iter()
        .any(|end| name.ends_with(end));
    has_password(value) || redact(value) != value || (named && !is_path && !is_name)
}

/// Whether one of the arguments may contain a secret, or be one because of the flag before it.
pub(super) fn secret_arguments(args: &[String]) -> bool {
    let is_flag = |arg: &str| arg.starts_with('-') && !arg.contains('=');
    let is_value = |arg: &str| !arg.starts_with(['-', '/']);
    let pair = |pair: &[String]| is_flag(&pair[0]) && sounds_secret(&pair[0]) && is_value(&pair[1]);
    args.iter().any(|arg| secret_argument(arg)) || args.windows(2).any(pair)
}

fn secret_argument(arg: &str) -> bool {
    let (name, value) = arg.trim_start_matches('-').split_once('=').unwrap_or(("", arg));
    let named = arg.starts_with('-') && sounds_secret(name) && !value.starts_with('/');
    has_password(value) || redact(arg) != arg || named
}

/// Whether a URL has a password in it.
fn has_password(value: &str) -> bool {
    let after = value.split_once("://").map_or("", |(_, rest)| rest);
    after.split('/').next().is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_told_from_what_names_something() {
        for (name, value) in [
            ("AWS_SECRET_ACCESS_KEY", "abc"),
            ("AWS_SECRET_ACCESS_KEY", "/abc"),
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("HTTPS_PROXY", "http://ann:s3cr3t@proxy:3128"),
        ] {
            assert!(secret_variable(name, value), "{name}");
        }
        for (name, value) in [
            ("AWS_PROFILE", "ecr"),
            ("AWS_ROLE_SESSION_NAME", "node"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/key.json"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/etc/aws"),
            ("HTTPS_PROXY", "http://proxy:3128/a@b"),
        ] {
            assert!(!secret_variable(name, value), "{name}");
        }
        for arg in ["--password=x", "--url=https://ann:s3cr3t@host/"] {
            assert!(secret_argument(arg), "{arg}");
        }
        for arg in
            ["get-credentials", "--v=3", "/etc/kubernetes/azure.json", "--token-file=/run/token"]
        {
            assert!(!secret_argument(arg), "{arg}");
        }
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(secret_arguments(&words("get --password hunter2")));
        for args in ["--token-file /run/token", "--password --v=3", "get hunter2"] {
            assert!(!secret_arguments(&words(args)), "{args}");
        }
    }
}
