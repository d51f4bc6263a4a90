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

use crate::version::versions;

/// The name of the variable that carries the request.
pub const REQUEST_VARIABLE: &str = "KUBERNETES_EXEC_INFO";

/// The API group of the protocol.
pub const GROUP: &str = "client.authentication.k8s.io";

versions! {
    /// A version of the protocol. The shapes are equal, so it is a value, not a type.
    "client.authentication.k8s.io"
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
