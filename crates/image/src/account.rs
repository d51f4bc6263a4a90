//! Service accounts of pods, for providers that exchange their tokens.

use std::{collections::BTreeMap, error::Error as StdError};

use keyward_protocol::Secret;

/// The pod that an image is pulled for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's service account; empty for a pod without one.
    pub service_account: String,
}

/// A service account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The service account's UID.
    pub uid: String,
    /// The service account's annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A request for a service account token: bound to the pod, with the default lifetime.
#[derive(Debug, Clone, Copy)]
pub struct TokenRequest<'a> {
    /// The pod that the token is bound to; it names the account.
    pub pod: &'a Pod,
    /// The account, which must not have been replaced by another with the same name.
    pub account: &'a Account,
    /// The token's audience.
    pub audience: &'a str,
}

/// Asks the cluster about service accounts. Calls may block.
pub trait Accounts: Send + Sync + 'static {
    /// The service account of a pod.
    fn account(&self, pod: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>>;

    /// A token. Requested only if no credential is cached.
    fn token(&self, request: &TokenRequest<'_>) -> Result<Secret, Box<dyn StdError + Send + Sync>>;
}
