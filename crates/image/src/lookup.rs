//! The result of a lookup, decision by decision.

use std::sync::Arc;

use keyward_host::Error;
use keyward_protocol::image::Login;

use super::{
    answer::{Answer, Scope},
    config::Provider,
};

/// The result of a lookup.
#[derive(Debug)]
pub struct Lookup {
    /// The name that was matched: the full name without tag and digest.
    pub image: String,
    /// The logins to try, best first.
    pub logins: Vec<FoundLogin>,
    /// Every provider of the configuration, in order, with its result.
    pub results: Vec<ProviderResult>,
}

/// A login and its provider.
#[derive(Debug, Clone)]
pub struct FoundLogin {
    /// The registry pattern in the answer.
    pub key: String,
    /// The login.
    pub login: Login,
    /// The provider.
    pub provider: Arc<Provider>,
    /// The service account that it is for: namespace and name.
    pub account: Option<(String, String)>,
}

/// One provider and its result.
#[derive(Debug)]
pub struct ProviderResult {
    /// The provider.
    pub provider: Arc<Provider>,
    /// The number of the first pattern that matches.
    pub pattern: Option<usize>,
    /// The result.
    pub outcome: Outcome,
}

/// The result of a provider.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// No pattern matches the image.
    NoMatch,
    /// The provider was skipped, for this reason.
    Skipped(String),
    /// The cache had an answer for this scope.
    Kept(Arc<Answer>, Scope),
    /// The provider ran, or another caller's run was shared.
    Answered(Arc<Answer>),
    /// The provider failed, but its last answer has not expired yet.
    LastGood(Arc<Answer>, Error),
    /// The provider failed; the pull goes on without it.
    Failed(Error),
}

impl Outcome {
    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&Arc<Answer>> {
        match self {
            Self::Kept(answer, _) | Self::Answered(answer) | Self::LastGood(answer, _) => {
                Some(answer)
            }
            _ => None,
        }
    }

    /// The failure, if there is one.
    pub fn failure(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) | Self::LastGood(_, error) => Some(error),
            _ => None,
        }
    }
}

impl FoundLogin {
    /// Whether the name or the password is missing. Providers may answer so, and the kubelet tries
    /// it; docker does not accept it as a login.
    pub fn is_empty(&self) -> bool {
        self.login.username.is_empty() || self.login.password.is_empty()
    }
}

impl Lookup {
    /// The best login that has both a name and a password.
    pub fn best(&self) -> Option<&FoundLogin> {
        self.logins.iter().find(|login| !login.is_empty())
    }

    /// The failures of providers.
    pub fn failures(&self) -> impl Iterator<Item = &Error> {
        self.results.iter().filter_map(|asked| asked.outcome.failure())
    }
}
