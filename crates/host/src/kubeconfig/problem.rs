//! What is wrong with a kubeconfig: every problem has a class, a place and the names it is about.

use std::fmt;

use super::Place;
use crate::{Error, Kind, error::inline};

/// One thing that is wrong with a kubeconfig. It never carries a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// What kind of problem it is.
    pub class: Class,
    /// Where it stands.
    pub place: Place,
    /// The entry it is about. Boxed, because a problem is the error of many functions.
    pub(crate) subject: Option<Box<Subject>>,
    /// The field it is about, in the kubeconfig's spelling; of a flag, the flag.
    pub field: Option<Box<str>>,
    /// What is wrong, in words.
    pub message: String,
    /// The one existing name that is close to a missing one.
    pub suggestion: Option<Box<str>>,
}

/// An entry of a kubeconfig, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Cluster(String),
    User(String),
    Context(String),
}

/// The kinds of [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// A file that was named is not there.
    FileNotFound,
    /// A file cannot be read, or is not a kubeconfig: syntax, version, type of a field.
    Load,
    /// Two entries of one list have the same name.
    DuplicateName,
    /// There is nothing to talk to: no context, or a context without a cluster.
    EmptyConfig,
    /// `current-context` names a context that does not exist.
    ContextNotFound,
    /// A flag names a context that does not exist.
    OverrideContextNotFound,
    /// A flag names a user that does not exist.
    OverrideUserNotFound,
    /// A flag names a cluster that does not exist.
    OverrideClusterNotFound,
    /// The context names a cluster that does not exist (minify).
    ClusterNotFound,
    /// The context names a user that does not exist (minify, or strict).
    UserNotFound,
    /// The cluster has no `server`.
    NoServer,
    /// The `proxy-url` is no URL, or not of a scheme we speak.
    ProxyUrlInvalid,
    /// Both `certificate-authority` and `certificate-authority-data`.
    CaBoth,
    /// The `certificate-authority` cannot be read.
    CaUnreadable,
    /// A certificate authority together with `insecure-skip-tls-verify`.
    CaWithInsecure,
    /// The certificate authority holds no certificate.
    CaInvalid,
    /// Both `client-certificate` and `client-certificate-data`.
    ClientCertificateBoth,
    /// The `client-certificate` cannot be read.
    ClientCertificateUnreadable,
    /// Both `client-key` and `client-key-data`.
    ClientKeyBoth,
    /// A client certificate without a key.
    ClientKeyMissing,
    /// The `client-key` cannot be read.
    ClientKeyUnreadable,
    /// Certificate and key do not parse, or not belong together.
    PairInvalid,
    /// The `tokenFile` is there but cannot be read.
    TokenUnreadable,
    /// Both a token and a user name with password.
    MultipleMethods,
    /// `as-uid`, `as-groups` or `as-user-extra` without `as`.
    ImpersonationWithoutUser,
    /// `exec` without `command`.
    ExecCommandMissing,
    /// `exec` without `apiVersion`.
    ExecVersionMissing,
    /// An `exec.apiVersion` nobody speaks.
    ExecVersionUnsupported,
    /// An environment variable of `exec` without a name.
    ExecVariableUnnamed,
    /// `exec` without `interactiveMode` where the version demands it.
    ExecModeMissing,
    /// An `interactiveMode` that is none.
    ExecModeInvalid,
    /// Both `exec` and `auth-provider`.
    ExecWithProvider,
    /// An `auth-provider` that Kubernetes removed.
    ProviderRemoved,
    /// An `auth-provider` nobody knows.
    ProviderUnknown,
    /// Credentials would be dropped because the server is not reached over HTTPS (strict).
    NotHttps,
}

impl Problem {
    pub(super) fn new(class: Class, place: Place, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { class, place, subject: None, field: None, message, suggestion: None }
    }

    pub(super) fn about(mut self, subject: Subject) -> Self {
        self.subject = Some(Box::new(subject));
        self
    }

    pub(super) fn field(mut self, field: impl Into<Box<str>>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(subject) = &self.subject {
            write!(f, "{subject}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "`{}` ", inline(field))?;
        }
        f.write_str(&self.message)?;
        if self.place.file.is_some() || self.place.line > 0 {
            write!(f, " ({})", self.place)?;
        }
        Ok(())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Self::Cluster(name) => ("cluster", name),
            Self::User(name) => ("user", name),
            Self::Context(name) => ("context", name),
        };
        write!(f, "{kind} `{}`", inline(name))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "`{}`", inline(&file.to_string_lossy()))?;
            if self.line > 0 {
                f.write_str(", ")?;
            }
        }
        if self.line > 0 {
            write!(f, "line {}", self.line)?;
        }
        Ok(())
    }
}

/// Flags have problems too.
fn owner(problems: &[Problem]) -> &'static str {
    let flag = |p: &Problem| p.field.as_ref().is_some_and(|field| field.starts_with("--"));
    if problems.iter().any(flag) { "there are" } else { "the kubeconfig has" }
}

/// One error for all `problems`, of which there is at least one.
pub(super) fn report(problems: Vec<Problem>) -> Error {
    let missing = |p: &Problem| p.class == Class::FileNotFound;
    let kind = if problems.iter().all(missing) { Kind::NotFound } else { Kind::BadConfig };
    let error = match problems.as_slice() {
        [only] => Error::new(kind, only.to_string()),
        many => many.iter().fold(
            Error::new(kind, format!("{} {} problems", owner(many), many.len())),
            |error, problem| error.note("problem", problem.to_string()),
        ),
    };
    error.with_problems(problems)
}
