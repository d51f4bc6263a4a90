//! Follows the kubeconfig and the kuberc while the proxy runs.
//!
//! A new version that can be used is in force at once, for every request that comes after it: what has
//! begun to answer goes on. A version that cannot be used is told of, and the one before it stays. What
//! the policy of a new version denies is closed, whatever credential is there already.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::{Kubeconfig, Reload, ReloadPace, redact::redact};
use keyward_process::clock::{Clock, SystemClock};

use crate::{
    Config, Error, Kind,
    context::{ServedContext, State},
    refusal::Refusal,
    route::Routes,
};

/// How often the files are looked at, and for how long one that is written in place must be left alone.
const PACE: ReloadPace =
    ReloadPace { every: Duration::from_millis(250), confirm: Duration::from_millis(100) };

/// How many changes of the files are in force, and what is wrong with the last one.
#[derive(Debug)]
pub(crate) struct ReloadStats {
    pub(crate) taken: AtomicU64,
    pub(crate) broken: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Debug, Clone)]
pub(crate) struct Last {
    /// Since when the version in force is.
    pub(crate) since: Timestamp,
    /// Why a newer version is not, and since when.
    pub(crate) fault: Option<(Timestamp, String)>,
}

impl ReloadStats {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            taken: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            last: Mutex::new(Last { since: SystemClock.now(), fault: None }),
        })
    }

    pub(crate) fn last(&self) -> Last {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files to follow. What they say now counts as known, so this comes before they are read.
pub(crate) fn files(config: &dyn Config) -> Reload {
    Reload::new(config.files(), PACE.confirm, Arc::new(SystemClock))
}

/// Gives contexts new routes when the files change.
pub(crate) struct Reloader {
    files: Reload,
    routes: Routes,
    contexts: Vec<Arc<ServedContext>>,
    reloads: Arc<ReloadStats>,
}

impl Reloader {
    pub(crate) fn new(
        files: Reload,
        routes: Routes,
        contexts: Vec<Arc<ServedContext>>,
        reloads: Arc<ReloadStats>,
    ) -> Self {
        Self { files, routes, contexts, reloads }
    }

    /// Follows until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let pause = if self.files.is_pending() { PACE.confirm } else { PACE.every };
            tokio::time::sleep(pause).await;
            // Files may be on a slow disk, and hundreds of contexts take their time.
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            let Ok(back) = looked.await else { return };
            self = back;
        }
    }

    fn look(&mut self) {
        let (routes, contexts) = (&self.routes, &self.contexts);
        let Some(read) = self.files.look(|| read(routes, contexts)) else { return };
        let now = SystemClock.now();
        match read {
            Ok(states) => {
                for (context, state) in self.contexts.iter().zip(states) {
                    apply(context, state);
                }
                self.reloads.taken.fetch_add(1, Ordering::Relaxed);
                *self.reloads.lock() = Last { since: now, fault: None };
                tracing::info!("the kubeconfig or the kuberc has changed, and is in force");
            }
            Err(error) => {
                self.reloads.broken.fetch_add(1, Ordering::Relaxed);
                let message = redact(&error.line()).into_owned();
                tracing::warn!(
                    "the kubeconfig or the kuberc has changed and is not used: {message}"
                );
                self.reloads.lock().fault = Some((now, message));
            }
        }
    }
}

/// What a new version means for each context; `None` where it stays as it is.
fn read(routes: &Routes, contexts: &[Arc<ServedContext>]) -> Result<Vec<Option<State>>, Error> {
    let kubeconfig = routes.config.kubeconfig()?;
    contexts.iter().map(|context| state(context, &kubeconfig, routes)).collect()
}

fn state(
    context: &ServedContext,
    kubeconfig: &Kubeconfig,
    routes: &Routes,
) -> Result<Option<State>, Error> {
    let name = context.entry.as_deref();
    if let Some(name) = name
        && !kubeconfig.contexts.iter().any(|context| context.name == name)
    {
        let message = format!("context `{name}` is not in the kubeconfig any more");
        return Ok(Some(State::Closed(Refusal::closed("context", message))));
    }
    let target = routes.config.target(kubeconfig, name)?;
    if name.is_none() && !target.context.is_empty() {
        return Err(Error::failed("a kubeconfig has come that was not there at the start")
            .hint("start the proxy again to use it"));
    }
    match routes.open(target) {
        Ok(route) if context.route().is_some_and(|current| current.is_same(&route)) => Ok(None),
        Ok(route) => Ok(Some(State::Open(Arc::new(route)))),
        Err(error) if error.kind() == Kind::NotAllowed => {
            let message = redact(&error.line()).into_owned();
            Ok(Some(State::Closed(Refusal::closed("policy", message))))
        }
        Err(error) => Err(error),
    }
}

fn apply(context: &ServedContext, state: Option<State>) {
    let Some(state) = state else { return };
    match &state {
        State::Open(_) => {
            tracing::info!(context = context.name, "the context has a new server or user");
        }
        State::Closed(refusal) => {
            tracing::warn!(context = context.name, "not served: {}", refusal.message);
        }
    }
    context.set(state);
}
