//! One context that is served: the way to its server, under its identity.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use keyward::Client;
use keyward_host::{
    Source, Sources, Target,
    clock::{Clock, SystemClock},
    plan::{Method, Plugin},
};

use super::meter::{Activity, Meter};
use crate::{failure::Failure, globals::Globals, mask::Mask};

/// A context.
pub(crate) struct Route {
    pub(crate) target: Target,
    pub(crate) client: Client,
    pub(crate) source: Source,
    pub(crate) meter: Arc<Meter>,
    pub(crate) mask: Mask,
    /// Whether something is run, or asked, for a credential.
    pub(crate) runs: bool,
    /// Whether what is run may ask a person at the terminal.
    pub(crate) asks: bool,
    last_error: Mutex<Option<(Timestamp, String)>>,
}

impl Route {
    /// The way to the server of a target. Runs nothing, connects to nobody.
    pub(crate) fn open(
        target: Target,
        globals: &Globals,
        sources: &Sources,
        refresh_on_403: bool,
        activity: &Arc<Activity>,
    ) -> Result<Self, Failure> {
        let plan = globals.plan(target.clone())?;
        let source = sources.open(&plan);
        let runs = [Method::Exec, Method::Signer, Method::Oidc];
        let asks = plan.plugin().is_some_and(Plugin::attended);
        let runs = plan.methods().iter().any(|method| runs.contains(method));
        let mut builder = Client::builder().without_defaults();
        if let Some(limit) = globals.flags.request_timeout.filter(|limit| !limit.is_zero()) {
            builder = builder.response_timeout(limit);
        }
        if refresh_on_403 {
            builder = builder.refresh_on_403();
        }
        let client = builder.build(&target, source.clone())?;
        let meter = Arc::new(Meter::new(activity.clone()));
        let mask = globals.mask.clone();
        Ok(Self { target, client, source, meter, mask, runs, asks, last_error: Mutex::default() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.target.context
    }

    /// Remembers what went wrong last. Returns whether it is something else than before.
    pub(crate) fn note(&self, error: String) -> bool {
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        let new = last.as_ref().is_none_or(|(_, before)| *before != error);
        *last = Some((SystemClock.now(), error));
        new
    }

    /// What went wrong last, and when.
    pub(crate) fn last_error(&self) -> Option<(Timestamp, String)> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
