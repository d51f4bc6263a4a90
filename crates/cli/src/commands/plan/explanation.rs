//! The data of `keyward plan`, for text and JSON alike.
//!
//! `docs/cli.md` documents the JSON; fields that do not apply are left out.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;

use crate::failure::Description;

/// Everything that is known before anything runs. After an error, what was known until then.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Explanation {
    /// The kubeconfig files, in the order of the merge.
    pub(in crate::commands) files: Vec<ConfigFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) cluster: Option<Cluster>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) user: Option<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) credential: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) plugin: Option<Plugin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) signer: Option<Signer>,
    /// What works but may be a mistake.
    pub(in crate::commands) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) error: Option<Problem>,
}

/// A kubeconfig file that was looked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct ConfigFile {
    pub(in crate::commands) path: PathBuf,
    /// Whether the file exists.
    pub(in crate::commands) found: bool,
}

/// The cluster to connect to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Cluster {
    pub(in crate::commands) name: String,
    pub(in crate::commands) server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(in crate::commands) tls_server_name: String,
    pub(in crate::commands) insecure_skip_tls_verify: bool,
    /// Whether the cluster has its own certificate authorities; otherwise the system's are used.
    pub(in crate::commands) own_certificate_authority: bool,
    /// With any password hidden.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(in crate::commands) proxy_url: String,
}

/// The user to authenticate as.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct User {
    pub(in crate::commands) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) line: Option<u32>,
    /// The user to impersonate.
    #[serde(rename = "as", skip_serializing_if = "String::is_empty")]
    pub(in crate::commands) acts_as: String,
}

/// Where the credential comes from, and why.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Source {
    /// The methods in use: at most a certificate for the handshake and a value for the header.
    /// Empty for an anonymous client.
    pub(in crate::commands) methods: Vec<Method>,
    pub(in crate::commands) because: String,
    /// The file of `tokenFile` or `serviceAccount`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) file: Option<PathBuf>,
}

/// The methods to get a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) enum Method {
    Token,
    TokenFile,
    Basic,
    ClientCertificate,
    Exec,
    Oidc,
    Signer,
    ServiceAccount,
}

/// Where a plugin's command leads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Resolved {
    /// The command, as in the kubeconfig.
    pub(in crate::commands) command: String,
    /// The file that would be executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) program: Option<PathBuf>,
    /// The file that the command resolves to, if it would not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) refused: Option<PathBuf>,
    /// The directories (or the one path) that were searched, in order, up to the one that has it.
    pub(in crate::commands) looked_in: Vec<PathBuf>,
}

/// The plugin that would run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Plugin {
    #[serde(flatten)]
    pub(in crate::commands) resolved: Resolved,
    /// Values are `[hidden]` unless `--show-args` was given.
    pub(in crate::commands) args: Vec<String>,
    /// Left out if nothing would run because a person is needed and none is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) environment: Option<Environment>,
    pub(in crate::commands) policy: Policy,
    pub(in crate::commands) api_version: String,
    pub(in crate::commands) interactive: Interactive,
    /// Whether a person attends the run: it then gets more time, and the terminal.
    pub(in crate::commands) attended: bool,
    /// A Go duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) time_limit: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(in crate::commands) install_hint: String,
    /// Where the kubeconfig is wrapped: what the agent knows about the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) agent: Option<Agent>,
    /// The value of `KUBERNETES_EXEC_INFO`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) request: Option<serde_json::Value>,
}

/// How a wrapped plugin stands with the agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Agent {
    /// The program in front of the plugin's command.
    pub(in crate::commands) wrapper: String,
    /// Whether the agent is asked: not with `CI` or `KEYWARD_AGENT=off`.
    pub(in crate::commands) asked: bool,
    /// Whether the agent may run the plugin itself.
    pub(in crate::commands) registered: bool,
    /// The profile of the plugin; `unknown` for a plugin without one.
    pub(in crate::commands) profile: &'static str,
}

/// The external signer to ask for a certificate, and for a signature per handshake.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Signer {
    #[serde(flatten)]
    pub(in crate::commands) resolved: Resolved,
    /// The signer's configuration. Values are `[hidden]` unless they are known to be harmless or
    /// `--show-args` was given; PINs always are.
    pub(in crate::commands) configuration: BTreeMap<String, String>,
    pub(in crate::commands) policy: Policy,
    /// Whether the signer keeps running as long as the client; otherwise it runs once per request.
    pub(in crate::commands) resident: bool,
    /// Whether TLS sessions are resumed without a signature.
    pub(in crate::commands) resumption: bool,
    /// Whether a person attends the run: it then gets more time, and the terminal.
    pub(in crate::commands) attended: bool,
    /// A Go duration, for each request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) time_limit: Option<String>,
}

/// The names of the plugin's environment variables.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Environment {
    /// `inherit`, `clean` or `only`: what is inherited from our environment.
    pub(in crate::commands) base: &'static str,
    /// The inherited names.
    pub(in crate::commands) inherited: Vec<String>,
    /// The names set by the kubeconfig and by Keyward.
    pub(in crate::commands) set: Vec<String>,
}

/// The verdict of the plugin policy and of the file checks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Policy {
    /// `AllowAll`, `DenyAll` or `Allowlist`.
    pub(in crate::commands) name: &'static str,
    /// The kuberc that contains the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) file: Option<PathBuf>,
    pub(in crate::commands) allowed: bool,
    pub(in crate::commands) because: String,
}

/// Whether the plugin may prompt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Interactive {
    /// `Never`, `IfAvailable` or `Always`.
    pub(in crate::commands) mode: String,
    /// Whether the plugin gets our stdin.
    pub(in crate::commands) stdin: bool,
    pub(in crate::commands) because: String,
}

/// Why the plan would not work.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::commands) struct Problem {
    /// The exit code of this problem.
    pub(in crate::commands) exit_code: u8,
    #[serde(flatten)]
    pub(in crate::commands) failure: Description,
}
