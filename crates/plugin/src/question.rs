use std::{
    env,
    error::Error,
    fmt,
    io::{self, IsTerminal},
};

use keyward_protocol::exec::{Cluster, REQUEST_VARIABLE, Request, RequestError, Response, Version};

use crate::{Endpoint, Refusal};

/// The client's request, with everything that the protocol has in it.
///
/// [`serve`](crate::serve()) reads it from the environment. A plugin with a `main` of its own does so
/// with [`Question::from_env`] or, for bytes from elsewhere, [`Question::from_bytes`]. Every version
/// of the protocol is read, the original proposal's `ExecInfo` too; YAML as well as JSON; unknown
/// fields are ignored.
#[derive(Debug, Clone)]
pub struct Question {
    request: Request,
    remarks: Vec<String>,
}

impl Question {
    /// The question in `KUBERNETES_EXEC_INFO`. Unset and empty are both [`QuestionError::Missing`].
    #[expect(clippy::disallowed_methods, reason = "this variable is how a plugin is asked")]
    pub fn from_env() -> Result<Self, QuestionError> {
        match env::var_os(REQUEST_VARIABLE) {
            Some(text) if !text.is_empty() => Self::from_bytes(text.as_encoded_bytes()),
            _ => Err(QuestionError::Missing),
        }
    }

    /// The question in `KUBERNETES_EXEC_INFO` or, if that is unset or empty, one of this version without a
    /// cluster, for a program that people also start by hand. It allows prompts if stdin is a terminal.
    pub fn from_env_or(version: Version) -> Result<Self, QuestionError> {
        match Self::from_env() {
            Err(QuestionError::Missing) => {
                let mut request = Request::new(version);
                request.interactive = io::stdin().is_terminal();
                Ok(Self { request, remarks: Vec::new() })
            }
            other => other,
        }
    }

    /// Parses the question in these bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, QuestionError> {
        if bytes.is_empty() {
            return Err(QuestionError::Missing);
        }
        let reading = Request::read(bytes).map_err(|error| match error {
            RequestError::WrongKind => QuestionError::WrongKind,
            RequestError::Internal => QuestionError::NoCluster,
            other => QuestionError::Decode(other.to_string()),
        })?;
        let remarks = reading.notes.iter().map(ToString::to_string).collect();
        Ok(Self { request: reading.request, remarks })
    }

    /// The parsed request.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The version of the request, in which the answer is given.
    pub fn version(&self) -> Version {
        self.request.version
    }

    /// Whether the plugin may prompt: stdin is a terminal and the plugin may read it. If not, open no
    /// prompt and no browser, and return [`Refusal::NeedsTerminal`].
    pub fn interactive(&self) -> bool {
        self.request.interactive
    }

    /// The cluster, exactly as in the request; present only if the kubeconfig has
    /// `provideClusterInfo: true`.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.request.cluster.as_ref()
    }

    /// The response with which the server rejected the previous credential. Only in v1alpha1.
    pub fn rejected(&self) -> Option<&Response> {
        self.request.response.as_ref()
    }

    /// How to reach the cluster: everything that a client needs but a credential. `None` if the request
    /// names no cluster.
    pub fn endpoint(&self) -> Result<Option<Endpoint>, QuestionError> {
        self.cluster().map(Endpoint::new).transpose()
    }

    /// The cluster, or an error for a plugin that cannot work without one.
    pub fn require_endpoint(&self) -> Result<Endpoint, QuestionError> {
        self.endpoint()?.ok_or(QuestionError::NoCluster)
    }

    /// Warnings for the author of the request: field names that were never part of the protocol, but in
    /// early samples of it (`serverName`, `caData`), and are ignored.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

/// Why there is no question, or no endpoint in it. No variant contains text of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionError {
    /// The variable is not set, or empty.
    Missing,
    /// Not a document, not of a known version, or a field of the wrong type.
    Decode(String),
    /// A known document, but not a request for a credential.
    WrongKind,
    /// The request names no cluster.
    NoCluster,
    /// The cluster cannot be used as it is described.
    BadCluster(String),
}

impl fmt::Display for QuestionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(f, "`{REQUEST_VARIABLE}` is not set"),
            Self::Decode(what) => write!(f, "cannot read `{REQUEST_VARIABLE}`: {what}"),
            Self::WrongKind => write!(f, "`{REQUEST_VARIABLE}` is not an `ExecCredential`"),
            Self::NoCluster => f.write_str(
                "the request names no cluster: set `provideClusterInfo: true` for this user in the kubeconfig",
            ),
            Self::BadCluster(what) => write!(f, "the request's cluster is not usable: {what}"),
        }
    }
}

impl Error for QuestionError {}

/// An unusable request is a configuration error.
impl From<QuestionError> for Refusal {
    fn from(error: QuestionError) -> Self {
        Self::BadConfig(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn question(text: &str) -> Result<Question, QuestionError> {
        Question::from_bytes(text.as_bytes())
    }

    #[test]
    fn the_refusal_of_the_last_credential_is_read_in_both_places() {
        for text in [
            r#"{"kind":"ExecInfo","apiVersion":"client.authentication.k8s.io/v1alpha1",
                "response":{"code":401,"header":{"A":["b","c"]}},"interactive":true}"#,
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1",
                "spec":{"response":{"code":401,"header":{"A":["b","c"]}},"interactive":true}}"#,
        ] {
            let question = question(text).unwrap();
            assert!(question.interactive());
            let rejected = question.rejected().unwrap();
            assert_eq!(rejected.code, 401);
            assert_eq!(rejected.header, [("A".to_owned(), vec!["b".to_owned(), "c".to_owned()])]);
        }
    }

    #[test]
    fn without_a_cluster_the_endpoint_is_none_and_the_strict_form_an_error() {
        let text = "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\n";
        let question = question(text).unwrap();
        assert!(question.endpoint().unwrap().is_none());
        assert_eq!(question.require_endpoint().unwrap_err(), QuestionError::NoCluster);
    }

    #[test]
    fn the_endpoint_has_all_the_request_says() {
        let question = question(
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":
               {"cluster":{"server":"https://h:6443","tls-server-name":"n","proxy-url":"http://p",
               "insecure-skip-tls-verify":true,"disable-compression":true,"config":{"a":1},
               "serverName":"old"}}}"#,
        )
        .unwrap();
        let endpoint = question.require_endpoint().unwrap();
        assert_eq!(endpoint.server(), "https://h:6443");
        assert_eq!(endpoint.server_name().as_deref(), Some("n"));
        assert_eq!(endpoint.proxy().unwrap().text(), "http://p");
        assert!(endpoint.insecure() && !endpoint.compression());
        assert_eq!(endpoint.config().unwrap().to_json(), r#"{"a":1}"#);
        assert_eq!(question.remarks().len(), 1);
    }

    #[test]
    fn each_fault_has_its_kind() {
        assert_eq!(question("").unwrap_err(), QuestionError::Missing);
        assert!(matches!(question("{").unwrap_err(), QuestionError::Decode(_)));
        let other = r#"{"kind":"Status","apiVersion":"v1"}"#;
        assert_eq!(question(other).unwrap_err(), QuestionError::WrongKind);
    }
}
