//! The data of `keyward plan`, for text and JSON alike.
//!
//! `docs/cli.md` documents the JSON; fields that do not apply are left out.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

/// Everything that is known before anything runs. After an error, what was known until then.
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
    /// What works but may be a mistake.
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Problem>,
}

/// A kubeconfig file that was looked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// Whether the file exists.
    pub(super) found: bool,
}

/// The cluster to connect to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) tls_server_name: String,
    pub(super) insecure_skip_tls_verify: bool,
    /// Whether the cluster has its own certificate authorities; otherwise the system's are used.
    pub(super) own_certificate_authority: bool,
    /// With any password hidden.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) proxy_url: String,
}

/// The user to authenticate as.
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

/// Where the credential comes from, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Source {
    /// The methods in use: at most a certificate for the handshake and a value for the header.
    /// Empty for an anonymous client.
    pub(super) methods: Vec<Method>,
    pub(super) because: String,
    /// The file of `tokenFile` or `serviceAccount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
}

/// The methods to get a credential.
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
    /// The command, as in the kubeconfig.
    pub(super) command: String,
    /// The file that would be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<PathBuf>,
    /// The file that the command resolves to, if it would not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<PathBuf>,
    /// The directories (or the one path) that were searched, in order, up to the one that has it.
    pub(super) looked_in: Vec<PathBuf>,
    /// Values are `[hidden]` unless `--show-args` was given.
    pub(super) args: Vec<String>,
    /// Left out if nothing would run because a person is needed and none is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) environment: Option<Environment>,
    pub(super) policy: Policy,
    pub(super) api_version: String,
    pub(super) interactive: Interactive,
    /// Whether a person attends the run: it then gets more time, and the terminal.
    pub(super) attended: bool,
    /// A Go duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_limit: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) install_hint: String,
    /// Where the kubeconfig is wrapped: what the agent knows about the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<Agent>,
    /// The value of `KUBERNETES_EXEC_INFO`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<serde_json::Value>,
}

/// How a wrapped plugin stands with the agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Agent {
    /// The program in front of the plugin's command.
    pub(super) wrapper: String,
    /// Whether the agent is asked: not with `CI` or `KEYWARD_AGENT=off`.
    pub(super) asked: bool,
    /// Whether the agent may run the plugin itself.
    pub(super) registered: bool,
    /// The profile of the plugin; `unknown` for a plugin without one.
    pub(super) profile: &'static str,
}

/// The external signer to ask for a certificate, and for a signature per handshake.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Signer {
    /// The command, as in the kubeconfig.
    pub(super) command: String,
    /// The file that would be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<PathBuf>,
    /// The file that the command resolves to, if it would not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<PathBuf>,
    /// The directories (or the one path) that were searched, in order, up to the one that has it.
    pub(super) looked_in: Vec<PathBuf>,
    /// The signer's configuration. Values are `[hidden]` unless they are known to be harmless or
    /// `--show-args` was given; PINs always are.
    pub(super) configuration: BTreeMap<String, String>,
    pub(super) policy: Policy,
    /// Whether the signer keeps running as long as the client; otherwise it runs once per request.
    pub(super) resident: bool,
    /// Whether TLS sessions are resumed without a signature.
    pub(super) resumption: bool,
    /// Whether a person attends the run: it then gets more time, and the terminal.
    pub(super) attended: bool,
    /// A Go duration, for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time_limit: Option<String>,
}

/// The names of the plugin's environment variables.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Environment {
    /// `inherit`, `clean` or `only`: what is inherited from our environment.
    pub(super) base: &'static str,
    /// The inherited names.
    pub(super) inherited: Vec<String>,
    /// The names set by the kubeconfig and by Keyward.
    pub(super) set: Vec<String>,
}

/// The verdict of the plugin policy and of the file checks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    /// `AllowAll`, `DenyAll` or `Allowlist`.
    pub(super) name: &'static str,
    /// The kuberc that contains the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    pub(super) allowed: bool,
    pub(super) because: String,
}

/// Whether the plugin may prompt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interactive {
    /// `Never`, `IfAvailable` or `Always`.
    pub(super) mode: String,
    /// Whether the plugin gets our stdin.
    pub(super) stdin: bool,
    pub(super) because: String,
}

/// Why the plan would not work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Problem {
    /// The exit code of this problem.
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
