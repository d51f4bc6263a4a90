use std::{error::Error as StdError, fmt, sync::Arc};

use keyward_protocol::text::causes;

use crate::Origin;

/// Why a request got no response. Opaque and cheap to clone, because one failed connection attempt
/// answers many callers.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// There is no credential: [`Error::credential`] has the reason.
    Credential,
    /// The kubeconfig contains something unusable: a URL, a certificate, a proxy.
    BadConfig,
    /// The server, or the proxy before it, could not be reached.
    Connect,
    /// The connection ended before the response came.
    Lost,
    /// There was no response within the time limit.
    TimedOut,
    /// The request is for another server than the one this client was made for.
    OtherOrigin,
    /// The request or the response broke the rules of HTTP.
    Http,
}

struct Inner {
    kind: Kind,
    message: String,
    source: Option<Source>,
}

enum Source {
    Credential(keyward_host::Error),
    Other(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// What a caller can do about the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The host's error, where there is no credential or no configuration. It has the hint and the
    /// notes.
    pub fn credential(&self) -> Option<&keyward_host::Error> {
        match &self.0.source {
            Some(Source::Credential(error)) => Some(error),
            _ => None,
        }
    }

    fn causes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        causes(self).try_for_each(|cause| write!(f, "\n  cause: {cause}"))
    }

    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self::of(kind, message.into(), None)
    }

    pub(crate) fn because(
        kind: Kind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::of(kind, message.into(), Some(Source::Other(source.into())))
    }

    fn of(kind: Kind, message: String, source: Option<Source>) -> Self {
        Self(Arc::new(Inner { kind, message, source }))
    }

    /// The error for a configuration that the host rejects.
    pub(crate) fn config(error: keyward_host::Error) -> Self {
        let message = "the configuration cannot be used".to_owned();
        Self::of(Kind::BadConfig, message, Some(Source::Credential(error)))
    }

    /// The error for a handshake that the external signer did not sign, or that failed despite it.
    pub(crate) fn unsigned(origin: &Origin, error: keyward_host::Error) -> Self {
        let message = format!("there is no signed connection with `{origin}`");
        Self::of(Kind::Credential, message, Some(Source::Credential(error)))
    }
}

impl From<keyward_host::Error> for Error {
    fn from(error: keyward_host::Error) -> Self {
        let message = "there is no credential for the request".to_owned();
        Self::of(Kind::Credential, message, Some(Source::Credential(error)))
    }
}

/// The message alone; `{:#}` adds the causes, and what [`keyward_host::Error`] adds, a line each.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(Source::Credential(error)) if f.alternate() => write!(f, "\n  cause: {error:#}"),
            _ if f.alternate() => self.causes(f),
            _ => Ok(()),
        }
    }
}

/// Everything a person needs, a line each, because this is what a `main` that returns the error
/// prints: also what the plugin wrote to stderr, cleaned and redacted. `{:#?}` shows the fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f
                .debug_struct("Error")
                .field("kind", &self.0.kind)
                .field("message", &self.0.message)
                .field("source", &self.source())
                .finish();
        }
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(Source::Credential(error)) => write!(f, "\n  cause: {error:?}"),
            _ => self.causes(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.source {
            Some(Source::Credential(error)) => Some(error),
            Some(Source::Other(error)) => Some(error.as_ref()),
            None => None,
        }
    }
}
