//! What the families for Google Cloud share: where its tokens come from.
//!
//! The order is that of Application Default Credentials (ADC), as Google's own libraries have it:
//!
//! | source | file |
//! |---|---|
//! | the file of `GOOGLE_APPLICATION_CREDENTIALS`, or the one of `gcloud auth application-default login` | `adc.rs` |
//! | … of type `authorized_user`, `external_account_authorized_user` | `user.rs` |
//! | … of type `service_account`, `gdch_service_account` | `service_account.rs` |
//! | … of type `external_account` (token in a file, at a URL, of a program, of AWS) | `external.rs`, `subject.rs`, `executable.rs`, `aws.rs` |
//! | … of type `impersonated_service_account` | `impersonated.rs` |
//! | metadata server: instances, GKE, Cloud Run | `metadata.rs` |
//! | `gcloud auth login` | `gcloud.rs` |
//!
//! A source that is not configured is skipped; one that is configured and fails ends the search.

mod adc;
mod aws;
mod executable;
mod external;
mod gcloud;
mod impersonated;
mod info;
mod metadata;
mod oauth;
#[cfg(feature = "gar")]
mod registry;
mod service_account;
mod subject;
mod token;
mod user;

use std::{cell::RefCell, time::Duration};

use keyward_plugin::Refusal;

pub(crate) use self::{gcloud::Gcloud, token::Token};
use crate::{
    Call, agent,
    http::{Http, Trust},
    store::{Key, Store},
};

/// How long to wait for another process that fetches the same token.
const PATIENCE: Duration = Duration::from_mins(1);

/// One request for a token.
pub(crate) struct Google<'a> {
    call: &'a Call,
    http: Http,
    store: RefCell<Option<Store>>,
    /// What the token is for.
    scopes: Vec<String>,
    /// Whom a token of Google Distributed Cloud is for.
    pub(crate) audience: Option<String>,
    /// Whether a key of a service account may sign the token itself, without a request. Registries accept that.
    pub(crate) self_signed: bool,
    /// Whether a person may be asked something.
    pub(crate) attended: bool,
    /// Whether a server has just refused what is kept.
    pub(crate) rejected: bool,
}

impl<'a> Google<'a> {
    pub(crate) fn new(call: &'a Call, scopes: &[&str]) -> Self {
        Self {
            call,
            http: Http::new(call, Trust::default()),
            store: RefCell::new(None),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            audience: None,
            self_signed: false,
            attended: false,
            rejected: false,
        }
    }

    /// The token that the agent keeps under this key, or a new one, which it keeps from then on. One process
    /// fetches it while the others wait.
    fn kept(
        &self,
        key: &Key,
        fetch: impl FnOnce() -> Result<Token, Refusal>,
    ) -> Result<Token, Refusal> {
        let mut store = self.store.borrow_mut();
        let store = store.get_or_insert_with(|| Store::open(&self.call.surroundings));
        if self.rejected {
            store.forget(key);
        }
        let (lease, missing) = (store.lease(key, PATIENCE), "token of this identity");
        let kept = agent::found(&lease, store, key, self.call, missing, Token::from_secret);
        if let Some(token) = kept {
            self.call.note("agent", "it keeps this token");
            return Ok(token);
        }
        let token = fetch()?;
        if let Some(until) = token.usable_until() {
            store.put(key, token.to_secret(), Some(until));
        }
        Ok(token)
    }
}
