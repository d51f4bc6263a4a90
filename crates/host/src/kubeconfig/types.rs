//! The nouns of a kubeconfig, in its own words.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_protocol::{Node, Secret, exec::Version, url};

use super::{Class, Lines, Problem, Subject};

/// Where something was said: for messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file, as the user named it; `None` for a config from memory or a flag.
    pub file: Option<Arc<Path>>,
    /// Line, from 1; 0 when unknown.
    pub line: u32,
}

/// One or several kubeconfig files, read and merged (first file wins).
#[derive(Debug, Clone, Default)]
pub struct Kubeconfig {
    /// Files that were looked for, in order, and whether each was there.
    pub files: Vec<(PathBuf, bool)>,
    /// `current-context`, from the first file that has one.
    pub current_context: String,
    /// Where `current-context` stands.
    pub current_context_place: Place,
    /// Clusters, in the order of the files.
    pub clusters: Vec<Named<Cluster>>,
    /// Users, in the order of the files.
    pub users: Vec<Named<User>>,
    /// Contexts, in the order of the files.
    pub contexts: Vec<Named<Context>>,
    /// `preferences.colors`, kept for whoever writes the configuration again.
    pub preferences_colors: bool,
    /// The extensions of `preferences`, by name, values unchanged.
    pub preferences_extensions: Vec<Named<Node>>,
    /// Extensions of the whole, by name, values unchanged.
    pub extensions: Vec<Named<Node>>,
    /// What was odd about loading: shown with the warnings of a [`Target`].
    pub warnings: Vec<String>,
}

/// An entry of a list with its name and place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Named<T> {
    /// The entry's name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// Where its fields stand.
    pub(crate) lines: Lines,
    /// What it is.
    pub value: T,
}

impl<T> Named<T> {
    /// An entry that stands in no file.
    pub fn new(name: impl Into<String>, value: T) -> Self {
        Self { name: name.into(), place: Place::default(), lines: Lines::default(), value }
    }
}

#[expect(private_bounds, reason = "only this module reports problems of entries")]
impl<T: Listed> Named<T> {
    /// The entry's kind and name, for messages.
    pub(super) fn subject(&self) -> Subject {
        T::SUBJECT(self.name.clone())
    }

    /// A problem of one of its fields.
    pub(super) fn problem(&self, class: Class, field: &str, message: impl Into<String>) -> Problem {
        self.lines.problem(class, (&self.subject(), &self.place), field, message)
    }
}

/// What a kubeconfig lists by name.
pub(super) trait Listed {
    const SUBJECT: fn(String) -> Subject;
}

impl Listed for Cluster {
    const SUBJECT: fn(String) -> Subject = Subject::Cluster;
}

impl Listed for User {
    const SUBJECT: fn(String) -> Subject = Subject::User;
}

impl Listed for Context {
    const SUBJECT: fn(String) -> Subject = Subject::Context;
}

/// A cluster, as its entry says: paths are made absolute when a [`Target`] is resolved.
#[derive(Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct Cluster {
    pub server: String,
    pub tls_server_name: String,
    pub insecure_skip_tls_verify: bool,
    pub certificate_authority: String,
    pub certificate_authority_data: Vec<u8>,
    pub proxy_url: String,
    pub disable_compression: bool,
    /// All extensions, by name, values unchanged.
    pub extensions: Vec<Named<Node>>,
}

/// A user, as its entry says: paths are made absolute when a [`Target`] is resolved.
#[derive(Clone, Default)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct User {
    pub token: Secret,
    pub token_file: String,
    pub username: String,
    pub password: Secret,
    pub client_certificate: String,
    pub client_certificate_data: Vec<u8>,
    pub client_key: String,
    pub client_key_data: Secret,
    pub exec: Option<Exec>,
    pub auth_provider: Option<AuthProvider>,
    pub impersonate: Impersonate,
    /// All extensions, by name, values unchanged.
    pub extensions: Vec<Named<Node>>,
}

/// `as` and its relatives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct Impersonate {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// The `exec` block of a user.
#[derive(Clone, Default)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct Exec {
    pub api_version: ApiVersion,
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, Secret)>,
    /// Lines of the variables without a name, in order.
    pub unnamed: Vec<u32>,
    pub install_hint: String,
    pub provide_cluster_info: bool,
    /// Defaulted for v1alpha1 and v1beta1 (EV-04); missing is an error for v1 (EV-05).
    pub interactive_mode: InteractiveMode,
    pub place: Place,
}

/// `apiVersion` of an `exec` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiVersion {
    /// A version of the plugin protocol.
    Known(Version),
    /// Anything else; empty when it is missing.
    Unknown(String),
}

/// `interactiveMode` of an `exec` block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub enum InteractiveMode {
    Never,
    IfAvailable,
    Always,
    /// Anything else; empty when it is missing.
    Unknown(String),
}

impl ApiVersion {
    /// Reads a version.
    pub fn parse(text: &str) -> Self {
        Version::parse(text).map_or_else(|| Self::Unknown(text.to_owned()), Self::Known)
    }

    /// The version as the kubeconfig spells it.
    pub fn text(&self) -> &str {
        match self {
            Self::Known(version) => version.api_version(),
            Self::Unknown(text) => text,
        }
    }

    /// The version, if it is one of the plugin protocol.
    pub fn known(&self) -> Option<Version> {
        match self {
            Self::Known(version) => Some(*version),
            Self::Unknown(_) => None,
        }
    }
}

impl InteractiveMode {
    /// Reads a mode.
    pub fn parse(text: &str) -> Self {
        match text {
            "Never" => Self::Never,
            "IfAvailable" => Self::IfAvailable,
            "Always" => Self::Always,
            other => Self::Unknown(other.to_owned()),
        }
    }

    /// The mode as the kubeconfig spells it.
    pub fn text(&self) -> &str {
        match self {
            Self::Never => "Never",
            Self::IfAvailable => "IfAvailable",
            Self::Always => "Always",
            Self::Unknown(text) => text,
        }
    }
}

impl Default for ApiVersion {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

impl Default for InteractiveMode {
    fn default() -> Self {
        Self::Unknown(String::new())
    }
}

/// The `auth-provider` block of a user.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct AuthProvider {
    pub name: String,
    pub config: Vec<(String, Secret)>,
    pub place: Place,
}

/// A context.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct Context {
    pub cluster: String,
    pub user: String,
    pub namespace: String,
    /// All extensions, by name, values unchanged.
    pub extensions: Vec<Named<Node>>,
}

/// What flags say over the files, under kubectl's names. What is empty says nothing, and neither
/// does a flag that says `false`: so it is in the reference.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are kubectl's flags")]
pub struct Overrides {
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub namespace: Option<String>,
    pub server: Option<String>,
    pub tls_server_name: Option<String>,
    pub certificate_authority: Option<String>,
    pub insecure_skip_tls_verify: Option<bool>,
    pub proxy_url: Option<String>,
    pub disable_compression: Option<bool>,
    pub token: Option<Secret>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    pub client_certificate: Option<String>,
    pub client_key: Option<String>,
    pub impersonate: Impersonate,
    /// Turns the warnings of a [`Target`] about credentials into errors (D9): a context whose user
    /// does not exist, a server that is not reached over HTTPS.
    pub strict: bool,
}

/// The one cluster and user a client talks to and as: after merge, overrides and validation.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// Name of the context, empty when none was used.
    pub context: String,
    /// The cluster, with its name and where its fields are set. `server` and `proxy_url` are in the form
    /// the reference gives to plugins; the content of a `certificate_authority` is in
    /// `certificate_authority_data` too.
    pub cluster: Named<Cluster>,
    /// The user after overrides, paths absolute; its name is empty for none. Where `token_file` is set,
    /// `token` is only its content of now (or a token given beside it), as in the reference: the file
    /// is to be read again. All credentials are gone if the server is not HTTPS (KC-34), with a warning.
    pub user: Named<User>,
    /// Namespace, `default` when nothing says otherwise.
    pub namespace: String,
    /// Whether the namespace came from an override.
    pub namespace_overridden: bool,
    /// The reserved `client.authentication.k8s.io/exec` extension (KC-38).
    pub exec_config: Option<Node>,
    /// Whether this is the service account of the pod we run in, for want of a kubeconfig.
    pub in_cluster: bool,
    /// Whether credentials of the user are gone because the server is not HTTPS.
    pub withheld: bool,
    /// What a careful reader would want to know (D9): shown by `keyward plan`, and by whatever uses the
    /// target.
    pub warnings: Vec<String>,
}

/// Shows addresses without passwords, and certificates by their size.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &url::mask(&self.server))
            .field("tls_server_name", &self.tls_server_name)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("certificate_authority", &self.certificate_authority)
            .field("certificate_authority_data", &Size(&self.certificate_authority_data))
            .field("proxy_url", &url::mask(&self.proxy_url))
            .field("disable_compression", &self.disable_compression)
            .field("extensions", &self.extensions)
            .finish()
    }
}

/// Shows no secret, and certificates by their size.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("token", &self.token)
            .field("token_file", &self.token_file)
            .field("username", &self.username)
            .field("password", &self.password)
            .field("client_certificate", &self.client_certificate)
            .field("client_certificate_data", &Size(&self.client_certificate_data))
            .field("client_key", &self.client_key)
            .field("client_key_data", &self.client_key_data)
            .field("exec", &self.exec)
            .field("auth_provider", &self.auth_provider)
            .field("impersonate", &self.impersonate)
            .field("extensions", &self.extensions)
            .finish()
    }
}

/// Arguments are shown by their number: people put secrets there.
impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec")
            .field("api_version", &self.api_version.text())
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .field("unnamed", &self.unnamed)
            .field("install_hint", &self.install_hint)
            .field("provide_cluster_info", &self.provide_cluster_info)
            .field("interactive_mode", &self.interactive_mode.text())
            .field("place", &self.place)
            .finish()
    }
}

struct Size<'a>(&'a [u8]);

impl fmt::Debug for Size<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
