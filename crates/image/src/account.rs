//! Service accounts of pods, for providers that exchange their tokens.

use std::{collections::BTreeMap, error::Error as StdError};

use keyward_protocol::Secret;

/// The pod for which an image is pulled.
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

/// What is known of a service account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Account {
    /// The service account's UID.
    pub uid: String,
    /// The service account's annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A token of a service account that is wanted: bound to the pod, of default lifetime.
#[derive(Debug, Clone, Copy)]
pub struct TokenRequest<'a> {
    /// The pod it is bound to; it names the account.
    pub pod: &'a Pod,
    /// The account, which must not have been replaced by another of its name meanwhile.
    pub account: &'a Account,
    /// For whom it is meant.
    pub audience: &'a str,
}

/// Whoever can ask the cluster about service accounts. Calls may block.
pub trait Accounts: Send + Sync + 'static {
    /// The service account of a pod.
    fn account(&self, pod: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>>;

    /// A token. Asked for only when no credential is cached.
    fn token(&self, request: &TokenRequest<'_>) -> Result<Secret, Box<dyn StdError + Send + Sync>>;
}
