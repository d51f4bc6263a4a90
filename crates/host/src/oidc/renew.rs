//! Keeps the id-token of a plan fresh.

use std::sync::{Arc, Mutex};

use keyward_process::{clock::SharedClock, lock};

use super::Oidc;
use crate::{
    Credential, Error, Kind, Plan,
    cell::{Fetch, Fetched, Occasion},
    credential::{Header, Unsendable},
    observer::Observer,
    pair::Pair,
    static_credential::{self, StaticCredential},
};

/// Gives the id-token while it is valid, and gets another in time.
pub(crate) struct Renewer {
    oidc: Arc<Oidc>,
    fixed: StaticCredential,
    plan: Plan,
    clock: SharedClock,
    observer: Arc<dyn Observer>,
    /// The certificate beside the token, so that one that did not change keeps its connections.
    pair: Mutex<Option<Arc<Pair>>>,
}

impl Renewer {
    pub(crate) fn new(
        oidc: Arc<Oidc>,
        fixed: StaticCredential,
        plan: Plan,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self { oidc, fixed, plan, clock, observer, pair: Mutex::new(None) }
    }

    fn attempt(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        let exchange = self.plan.settings().exchange.as_deref();
        let renew = !matches!(occasion, Occasion::Needed);
        let id = self.oidc.token(exchange, self.clock.now(), renew)?;
        let mut last = lock(&self.pair);
        let pair = static_credential::pair(&self.fixed, &self.plan, last.as_ref())?;
        last.clone_from(&pair);
        let credential = Credential::new(Header::Bearer(id.token), pair, Some(id.expires))
            .map_err(|Unsendable| {
                Error::new(
                    Kind::BadAnswer,
                    "the id-token contains a character that no header can contain",
                )
            })?;
        Ok(Fetched { value: credential, expires: Some(id.expires) })
    }
}

impl Fetch<Credential> for Renewer {
    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        let start = self.clock.elapsed();
        let result = self.attempt(occasion);
        self.observer.refreshed(self.clock.elapsed().saturating_sub(start), result.is_ok());
        if let Ok(fresh) = &result {
            self.observer.expires(fresh.expires, self.clock.now());
        }
        result.map_err(|error| error.needed_by(self.plan.needed_by()))
    }
}
