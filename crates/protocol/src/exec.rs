//! The exec credential protocol: `client.authentication.k8s.io` v1alpha1, v1beta1 and v1.

use crate::{Node, Secret};

/// The name of the variable that carries the request.
pub const REQUEST_VARIABLE: &str = "KUBERNETES_EXEC_INFO";

/// A version of the protocol. The shapes are equal, so it is a value, not a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Version {
    /// `client.authentication.k8s.io/v1alpha1`
    V1Alpha1,
    /// `client.authentication.k8s.io/v1beta1`
    V1Beta1,
    /// `client.authentication.k8s.io/v1`
    V1,
}

impl Version {
    /// All of them, oldest first.
    pub const ALL: [Self; 3] = [Self::V1Alpha1, Self::V1Beta1, Self::V1];

    /// The `apiVersion` text.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "client.authentication.k8s.io/v1alpha1",
            Self::V1Beta1 => "client.authentication.k8s.io/v1beta1",
            Self::V1 => "client.authentication.k8s.io/v1",
        }
    }

    /// The version with exactly this `apiVersion` text.
    pub fn parse(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.api_version() == api_version)
    }
}

/// What a client asks a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The version both sides speak.
    pub version: Version,
    /// Whether the plugin may talk to a person on its stdin.
    pub interactive: bool,
    /// The cluster it is for, where the kubeconfig says `provideClusterInfo`.
    pub cluster: Option<Cluster>,
    /// The answer that made the client ask again. Only said under v1alpha1.
    pub response: Option<Response>,
    /// Which shape of v1alpha1 to write.
    pub form: Form,
}

/// The shape of a v1alpha1 message; the later versions have one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `kind: ExecCredential` with `spec` (and, under v1alpha1, `response` and `interactive` at
    /// top level too, where seed 004's plugins look).
    #[default]
    ExecCredential,
    /// `kind: ExecInfo`, as the first proposal had it.
    ExecInfo,
}

/// The cluster as a plugin sees it: the kubeconfig's, with the certificate authority's content in
/// place of its path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cluster {
    /// URL of the API server.
    pub server: String,
    /// Name to check the server's certificate against, where it is not the URL's host.
    pub tls_server_name: String,
    /// Whether the server's certificate is not checked.
    pub insecure_skip_tls_verify: bool,
    /// The certificate authorities, in PEM; empty means the system's.
    pub certificate_authority_data: Vec<u8>,
    /// URL of the proxy to use.
    pub proxy_url: String,
    /// Whether responses must not be compressed.
    pub disable_compression: bool,
    /// The kubeconfig's `client.authentication.k8s.io/exec` extension.
    pub config: Option<Node>,
}

/// A server's refusal, as a plugin under v1alpha1 sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// HTTP status code.
    pub code: u16,
    /// HTTP headers, names in canonical form.
    pub header: Vec<(String, Vec<String>)>,
}

/// What a plugin answered, decoded but not yet checked against a key pair or a clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The version it was said in.
    pub version: Version,
    /// Bearer token, verbatim.
    pub token: Option<Secret>,
    /// Certificate chain in PEM, leaf first, and its key in PEM.
    pub pair: Option<PemPair>,
    /// Until when it may be kept; `None` is for the life of the process.
    pub expires: Option<jiff::Timestamp>,
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
        /// The reference's detail class: `syntax`, `field_type`, `timestamp`, …
        detail: Detail,
    },
    /// Another version than the one asked for.
    VersionMismatch {
        /// The `apiVersion` found, cleaned, if it is one we know the form of.
        found: Option<Version>,
    },
    /// No `status`.
    MissingStatus,
    /// A `status` with neither token nor pair.
    MissingCredentials,
    /// A certificate without key or a key without certificate.
    PartialPair,
}

/// Finer classes of [`AnswerError::Decode`], named as the vectors name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// Neither JSON nor YAML.
    Syntax,
    /// Not an object, or `kind`/`apiVersion` are not texts.
    NotAnObject,
    /// A kind or group that is not ours.
    UnknownType,
    /// Another kind of our group.
    OtherType,
    /// A field of the wrong type.
    FieldType,
    /// An `expirationTimestamp` that is not RFC 3339.
    Timestamp,
    /// An `apiVersion` with too many parts.
    BadApiVersion,
}

impl Request {
    /// The one-line JSON that goes into [`REQUEST_VARIABLE`], newline included (IN-01).
    pub fn to_json(&self) -> String {
        todo!()
    }
}

impl Answer {
    /// Reads what a plugin printed (JSON or YAML) when asked in `version`.
    pub fn read(_stdout: &[u8], _version: Version) -> Result<Self, AnswerError> {
        todo!()
    }

    /// The answer as a plugin prints it, in its own version.
    pub fn to_json(&self) -> String {
        todo!()
    }
}
