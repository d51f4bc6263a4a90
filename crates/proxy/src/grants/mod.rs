//! Grants: access to a context for a tool, a container or an AI agent, which can be taken back.
//!
//! A consumer has a client certificate of its own and never a credential of the cluster. The proxy
//! forwards what the rules allow, records every request, and closes the consumer's connections when the
//! grant is revoked or ends. [`Grants`] are those that a proxy enforces; `store` has the files from which
//! it learns of them.

mod attributes;
mod audit;
mod live;
mod record;
mod relay;
mod rules;
mod store;
mod verifier;

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use keyward_process::{
    clock::{Clock as _, SystemClock},
    lock,
    surroundings::Surroundings,
};
use rustls::pki_types::CertificateDer;

use crate::{Error, Service, context::ServedContexts};

use self::store::Places;
pub(crate) use self::{
    live::{Connected, Grant, RecentRequest, ended},
    record::Record,
    verifier::verifier,
};
pub use self::{
    rules::{Allow, Rules},
    store::{NewGrant, StoredGrant, create, log_files, revoke},
};

/// How often the files are looked at, for changes of which nobody told us.
const LOOK: Duration = Duration::from_secs(1);

/// The grants that a proxy enforces.
#[derive(Clone)]
pub struct Grants(Arc<Inner>);

struct Inner {
    /// Where they come from; a proxy that is no service has none.
    source: Option<Source>,
    contexts: Arc<ServedContexts>,
    live: ArcSwap<HashMap<CertificateDer<'static>, Arc<Grant>>>,
    /// When the directory had changed last. Held while the files are read.
    seen: Mutex<Option<SystemTime>>,
}

struct Source {
    service: Service,
    places: Places,
}

impl Grants {
    /// Those of a service.
    pub(crate) fn of(
        service: Option<&Service>,
        surroundings: &Surroundings,
        contexts: Arc<ServedContexts>,
    ) -> Self {
        let source = service
            .cloned()
            .and_then(|service| Some(Source { service, places: Places::of(surroundings)? }));
        let (live, seen) = (ArcSwap::default(), Mutex::default());
        Self(Arc::new(Inner { source, contexts, live, seen }))
    }

    /// The grants in force, by name.
    pub(crate) fn list(&self) -> Vec<Arc<Grant>> {
        let mut all: Vec<_> = self.0.live.load().values().cloned().collect();
        all.sort_by(|one, other| one.stored.name.cmp(&other.stored.name));
        all
    }

    /// Revokes a grant, and closes its connections. Returns whether there was one with this name.
    pub(crate) fn revoke(&self, name: &str) -> Result<bool, Error> {
        let Some(source) = &self.0.source else { return Ok(false) };
        let known = self.0.live.load().values().any(|grant| grant.stored.name == name);
        if known {
            store::remove(&source.service, &source.places, name)?;
            self.reload();
        }
        Ok(known)
    }

    /// Whether none is in force.
    pub fn is_empty(&self) -> bool {
        self.0.live.load().is_empty()
    }

    /// The grant that a certificate belongs to.
    pub(crate) fn of_certificate(&self, certificate: &CertificateDer<'_>) -> Option<Arc<Grant>> {
        self.0.live.load().get(certificate).cloned()
    }

    /// Puts in force what the files say now. Needs the proxy's runtime.
    pub(crate) fn reload(&self) {
        let Some(Source { service, places }) = &self.0.source else { return };
        let mut seen = lock(&self.0.seen);
        // Before it is read, so that a change in between is noticed.
        let changed = changed(service);
        let (found, complete) = StoredGrant::scan(service);
        // What could not be read is tried again.
        *seen = changed.filter(|_| complete);
        let before = self.0.live.load_full();
        let mut now = HashMap::new();
        let unread = |grant: &Grant| {
            !complete
                && found.iter().all(|one| one.name != grant.stored.name)
                && grant.expires > SystemClock.now()
                && store::exists(service, &grant.stored.name)
        };
        // They stay as they are: no consumer can end another's grant by using up what reading needs.
        for (certificate, grant) in before.iter().filter(|(_, grant)| unread(grant)) {
            now.insert(certificate.clone(), grant.clone());
        }
        for stored in found {
            if stored.is_expired() {
                let _ = store::remove(service, places, &stored.name);
                continue;
            }
            let Some(certificate) = stored.der() else { continue };
            let grant = match before.get(&certificate).filter(|grant| grant.stored == stored) {
                Some(known) => known.clone(),
                None => Arc::new(Grant::new(stored, places)),
            };
            now.insert(certificate, grant);
        }
        let kept = |grant: &Arc<Grant>| now.values().any(|one| Arc::ptr_eq(one, grant));
        let ended: Vec<_> = before.values().filter(|grant| !kept(grant)).cloned().collect();
        let now = Arc::new(now);
        self.0.live.store(now.clone());
        // After nobody can connect with it any more.
        for grant in ended {
            grant.end();
        }
        for grant in now.values() {
            grant.listen(places, &self.0.contexts);
        }
    }

    /// Watches the files and the clock until it is dropped.
    pub(crate) async fn watch(self) {
        if self.0.source.is_none() {
            return;
        }
        loop {
            tokio::time::sleep(self.pause()).await;
            let grants = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                if grants.is_stale() {
                    grants.reload();
                }
            });
            if looked.await.is_err() {
                return;
            }
        }
    }

    /// How long nothing can happen.
    fn pause(&self) -> Duration {
        let now = SystemClock.now();
        let left = |grant: &Arc<Grant>| grant.expires.duration_since(now).unsigned_abs();
        let live = self.0.live.load();
        live.values().map(left).min().unwrap_or(LOOK).clamp(Duration::from_millis(10), LOOK)
    }

    fn is_stale(&self) -> bool {
        let Some(source) = &self.0.source else { return false };
        let now = SystemClock.now();
        let seen = *lock(&self.0.seen);
        changed(&source.service) != seen
            || self
                .0
                .live
                .load()
                .values()
                .any(|grant| grant.expires <= now || !grant.is_listening())
    }
}

/// When the rules of a service last changed.
fn changed(service: &Service) -> Option<SystemTime> {
    fs::metadata(service.grants()).and_then(|found| found.modified()).ok()
}
