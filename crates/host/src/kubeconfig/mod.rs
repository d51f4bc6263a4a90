//! Reads kubeconfig files: our own reader, because an error must say file, line, user and field.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_protocol::{Node, Secret};

use crate::{Error, Surroundings};

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
    /// Files that were read, in order, and whether each was there.
    pub files: Vec<(PathBuf, bool)>,
    /// `current-context`, from the first file that has one.
    pub current_context: String,
    /// Clusters by name.
    pub clusters: Vec<Named<Cluster>>,
    /// Users by name.
    pub users: Vec<Named<User>>,
    /// Contexts by name.
    pub contexts: Vec<Named<Context>>,
    // the rest of the document (preferences, extensions) for flatten and minify
}

/// An entry of a list with its name and place.
#[derive(Debug, Clone)]
pub struct Named<T> {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub value: T,
}

/// A cluster, as its entry says (paths absolute, nothing read yet).
#[derive(Debug, Clone, Default)]
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

/// A user, as its entry says (paths absolute, nothing read yet).
#[derive(Debug, Clone, Default)]
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
}

/// `act-as` and its relatives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct Impersonate {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: Vec<(String, Vec<String>)>,
}

/// The `exec` block of a user.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "the names are the kubeconfig's")]
pub struct Exec {
    pub api_version: String,
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, Secret)>,
    pub install_hint: String,
    pub provide_cluster_info: bool,
    /// Defaulted for v1alpha1 and v1beta1; empty is an error for v1 (EV-05).
    pub interactive_mode: String,
    pub place: Place,
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
}

/// What flags say over the files, under kubectl's names.
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
}

/// The one cluster and user a client talks to and as: after merge, overrides and validation.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the context, empty when none was used.
    pub context: String,
    /// Name of the cluster entry.
    pub cluster_name: String,
    /// Name of the user entry, empty for none.
    pub user_name: String,
    /// Where the user entry stands.
    pub user_place: Place,
    /// Namespace, `default` when nothing says otherwise.
    pub namespace: String,
    /// Whether the namespace came from an override.
    pub namespace_overridden: bool,
    /// The cluster, certificate authority read into `certificate_authority_data` if it was a file.
    pub cluster: Cluster,
    /// The user after overrides. Credentials are already dropped if the server is not HTTPS (KC-34),
    /// with a warning.
    pub user: User,
    /// The reserved `client.authentication.k8s.io/exec` extension (KC-38).
    pub exec_config: Option<Node>,
    /// What a careful reader would want to know (D9): shown by `keyward plan` and with `-v`.
    pub warnings: Vec<String>,
}

impl Kubeconfig {
    /// Loads what kubectl would: `explicit` alone, else `$KUBECONFIG`, else `~/.kube/config` (KC-01 to KC-06).
    pub fn load(_surroundings: &Surroundings, _explicit: Option<&Path>) -> Result<Self, Error> {
        todo!()
    }

    /// Reads one document from memory; paths in it are left alone (KC-22).
    pub fn from_bytes(_bytes: &[u8]) -> Result<Self, Error> {
        todo!()
    }

    /// The effective cluster and user; all problems reported together (EV-10).
    pub fn resolve(
        &self,
        _overrides: &Overrides,
        _surroundings: &Surroundings,
    ) -> Result<Target, Error> {
        todo!()
    }
}
