//! The shape of what `keyward plan` says: one tree for people and for programs.
//!
//! The JSON form is documented in `docs/cli.md`; a field that does not apply is left out.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

/// Everything that is known before anything runs. After an error it ends where the error came up.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// The kubeconfig files, in the order of the merge.
    pub(super) files: Vec<ConfigFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<Cluster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) credential: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plugin: Option<Plugin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signer: Option<Signer>,
    /// What works but deserves a look.
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Problem>,
}

/// A kubeconfig file that was looked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// Whether it was there.
    pub(super) found: bool,
}

/// The cluster that would be talked to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    /// Whether it has certificate authorities of its own; the system's count otherwise.
    pub(super) own_certificate_authority: bool,
    /// Any password in it hidden.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) proxy_url: String,
}

/// The user one would be.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct User {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    /// The user to impersonate.
    #[serde(rename = "as", skip_serializing_if = "String::is_empty")]
    pub(super) acts_as: String,
}

/// Where the credential comes from, and why from there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    /// What is used: at most a certificate for the handshake and something for the header. Nothing
    /// for an anonymous client.
    pub(super) methods: Vec<Method>,
    pub(super) because: String,
    /// The file it is read from, for `tokenFile` and `serviceAccount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
}

/// The ways to a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Method {
    Token,
    TokenFile,
    Basic,
    ClientCertificate,
    Exec,
    Oidc,
    Signer,
    ServiceAccount,
}

/// The plugin that would run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plugin {
    /// As the kubeconfig says it.
    pub(super) command: String,
    /// The file that would be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<PathBuf>,
    /// The file that the command leads to, where it would not be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<PathBuf>,
    /// The folders (or the one path) that were searched, in order, up to the one that had it.
    pub(super) looked_in: Vec<PathBuf>,
    /// Values are `[hidden]` unless `--show-args` was given.
    pub(super) args: Vec<String>,
    /// Not there when nothing would run because there is nobody to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) environment: Option<Environment>,
    pub(super) policy: Policy,
    pub(super) api_version: String,
    pub(super) interactive: Interactive,
    /// Whether a person attends the run: it then has more time, and the terminal.
    pub(super) attended: bool,
    /// As Go writes durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_limit: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) install_hint: String,
    /// What `KUBERNETES_EXEC_INFO` would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<serde_json::Value>,
}

/// The external signer that would be asked for a certificate, and for a signature per handshake.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Signer {
    /// As the kubeconfig says it.
    pub(super) command: String,
    /// The file that would be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<PathBuf>,
    /// The file that the command leads to, where it would not be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<PathBuf>,
    /// The folders (or the one path) that were searched, in order, up to the one that had it.
    pub(super) looked_in: Vec<PathBuf>,
    /// What it is told. Values are `[hidden]` unless they are known to be harmless or `--show-args`
    /// was given; those of a PIN always.
    pub(super) configuration: BTreeMap<String, String>,
    pub(super) policy: Policy,
    /// Whether it stays for as long as the client lives; else it is run for each request.
    pub(super) resident: bool,
    /// Whether connections are resumed without a signature.
    pub(super) resumption: bool,
    /// Whether a person attends the run: it then has more time, and the terminal.
    pub(super) attended: bool,
    /// As Go writes durations; for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_limit: Option<String>,
}

/// What the plugin would see in its environment; names only.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Environment {
    /// `inherit`, `clean` or `only`: what is taken over from ours.
    pub(super) base: &'static str,
    /// The names taken over from ours.
    pub(super) inherited: Vec<String>,
    /// The names set by the kubeconfig and by us.
    pub(super) set: Vec<String>,
}

/// What the plugin policy and the state of the file say.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    /// `AllowAll`, `DenyAll` or `Allowlist`.
    pub(super) name: &'static str,
    /// The kuberc it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    pub(super) allowed: bool,
    pub(super) because: String,
}

/// Whether the plugin may talk to a person.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interactive {
    /// `Never`, `IfAvailable` or `Always`.
    pub(super) mode: String,
    /// Whether it gets our stdin.
    pub(super) stdin: bool,
    pub(super) because: String,
}

/// Why it would not work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    /// The exit code that goes with it.
    pub(super) exit_code: u8,
    pub(super) message: String,
    pub(super) notes: Vec<Note>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// A labelled fact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Note {
    pub(super) label: String,
    pub(super) text: String,
}
