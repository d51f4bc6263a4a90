//! The exec credential protocol: `client.authentication.k8s.io` v1alpha1, v1beta1 and v1.
//!
//! A client puts a [`Request`] into the environment of a plugin, the plugin prints an [`Answer`].

mod answer;
mod envelope;
mod request;
mod shape;

pub use answer::{Answer, AnswerError, PemPair};
pub use envelope::Detail;
pub use request::{Cluster, Note, Reading, Request, RequestError, Response};

/// The name of the variable that carries the request.
pub const REQUEST_VARIABLE: &str = "KUBERNETES_EXEC_INFO";

/// The API group of the protocol.
pub const GROUP: &str = "client.authentication.k8s.io";

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

/// The shape of a v1alpha1 message; the later versions have one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `kind: ExecCredential` with `spec` and `status`. A request under v1alpha1 says `response`
    /// and `interactive` at top level too, where plugins of the original proposal look.
    #[default]
    ExecCredential,
    /// `kind: ExecInfo`, answered by `kind: ExecCredentials`, as the original proposal had it:
    /// everything at top level.
    ExecInfo,
}

#[cfg(test)]
mod tests;
