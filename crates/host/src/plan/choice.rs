//! The ways to a credential.

use std::sync::Arc;

use crate::{
    exec::ExecPlugin,
    oidc::Oidc,
    signer::SignerPlugin,
    static_credential::{HeaderSource, StaticCredential},
};

/// A way to a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// A client certificate with its key, in the kubeconfig or in files.
    ClientCertificate,
    /// A token, in the kubeconfig or a flag.
    Token,
    /// A token in a file, read again as it changes.
    TokenFile,
    /// A user name with a password.
    Basic,
    /// A plugin is run.
    Exec,
    /// The `oidc` auth-provider keeps an id-token fresh.
    Oidc,
    /// The `externalSigner` auth-provider: a client certificate whose key stays where it is.
    Signer,
}

impl Method {
    /// The method's name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientCertificate => "a client certificate",
            Self::Token => "a token",
            Self::TokenFile => "a token file",
            Self::Basic => "a user name with password",
            Self::Exec => "a plugin",
            Self::Oidc => "the `oidc` auth-provider",
            Self::Signer => "an external signer",
        }
    }
}

/// How a user gets credentials, with everything that this needs.
pub(crate) enum Choice {
    /// What the user has is used as it is; nothing, for an anonymous client.
    Static(StaticCredential),
    Exec(Arc<ExecPlugin>),
    /// Beside a client certificate.
    Oidc(Arc<Oidc>, StaticCredential),
    /// Beside what the user has for the header.
    Signer(Arc<SignerPlugin>, StaticCredential),
}

impl Choice {
    pub(super) fn methods(&self) -> Vec<Method> {
        let (fixed, more) = match self {
            Self::Static(fixed) => (Some(fixed), None),
            Self::Exec(_) => (None, Some(Method::Exec)),
            Self::Oidc(_, fixed) => (Some(fixed), Some(Method::Oidc)),
            Self::Signer(_, fixed) => (Some(fixed), Some(Method::Signer)),
        };
        fixed.map(StaticCredential::methods).unwrap_or_default().into_iter().chain(more).collect()
    }
}

impl StaticCredential {
    pub(super) fn methods(&self) -> Vec<Method> {
        let certificate = self.certificate.map(|_| Method::ClientCertificate);
        let header = self.header.as_ref().map(|header| match header {
            HeaderSource::Token => Method::Token,
            HeaderSource::TokenFile(_) => Method::TokenFile,
            HeaderSource::Basic => Method::Basic,
        });
        certificate.into_iter().chain(header).collect()
    }
}
