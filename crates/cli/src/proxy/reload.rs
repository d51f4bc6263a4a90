//! Follows the kubeconfig and the kuberc while the proxy runs.
//!
//! A new version that can be used is in force at once, for every request that comes after it: what has
//! begun to answer goes on. A version that cannot be used is told of, and the one before it stays. What
//! the policy of a new version denies is closed, whatever credential is there already.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::{
    Kubeconfig, Sources,
    redact::redact,
    reload::{Pace, Reload},
    rules::Rules,
};
use keyward_process::clock::{Clock, SystemClock};

use super::{
    contexts,
    route::Route,
    served::{Closed, Served, State},
};
use crate::{
    failure::{Code, Failure},
    globals::Globals,
};

/// How often the files are looked at, and for how long one that is written in place must be left alone.
const PACE: Pace = Pace { every: Duration::from_millis(250), confirm: Duration::from_millis(100) };

/// What became of the versions that were seen.
#[derive(Debug)]
pub(crate) struct Versions {
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

impl Versions {
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
pub(crate) fn files(globals: &Globals) -> Reload {
    let explicit =
        |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
    let (surroundings, flags) = (&globals.surroundings, &globals.flags);
    let mut paths = Kubeconfig::paths(surroundings, explicit(&flags.kubeconfig).as_deref());
    paths.extend(Rules::path(surroundings, explicit(&flags.kuberc).as_deref()));
    Reload::new(paths, PACE.confirm, Arc::new(SystemClock))
}

/// Everything that a new version is made of.
pub(crate) struct Follower {
    files: Reload,
    globals: Globals,
    sources: Sources,
    refresh_on_403: bool,
    served: Vec<Arc<Served>>,
    versions: Arc<Versions>,
}

impl Follower {
    pub(crate) fn new(
        files: Reload,
        globals: &Globals,
        sources: Sources,
        refresh_on_403: bool,
        served: Vec<Arc<Served>>,
        versions: Arc<Versions>,
    ) -> Self {
        Self { files, globals: globals.clone(), sources, refresh_on_403, served, versions }
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
        let (globals, sources, served) = (&self.globals, &self.sources, &self.served);
        let refresh_on_403 = self.refresh_on_403;
        let Some(read) = self.files.look(|| read(globals, sources, served, refresh_on_403)) else {
            return;
        };
        let now = SystemClock.now();
        match read {
            Ok(states) => {
                for (served, state) in self.served.iter().zip(states) {
                    apply(served, state);
                }
                self.versions.taken.fetch_add(1, Ordering::Relaxed);
                *self.versions.lock() = Last { since: now, fault: None };
                tracing::info!("the kubeconfig or the kuberc has changed, and is in force");
            }
            Err(failure) => {
                self.versions.broken.fetch_add(1, Ordering::Relaxed);
                let message = redact(&failure.line()).into_owned();
                tracing::warn!(
                    "the kubeconfig or the kuberc has changed and is not used: {message}"
                );
                self.versions.lock().fault = Some((now, message));
            }
        }
    }
}

/// What a new version means for each context; `None` where it stays as it is.
fn read(
    globals: &Globals,
    sources: &Sources,
    served: &[Arc<Served>],
    refresh_on_403: bool,
) -> Result<Vec<Option<State>>, Failure> {
    let config = globals.kubeconfig()?;
    served.iter().map(|served| state(served, &config, globals, sources, refresh_on_403)).collect()
}

fn state(
    served: &Served,
    config: &Kubeconfig,
    globals: &Globals,
    sources: &Sources,
    refresh_on_403: bool,
) -> Result<Option<State>, Failure> {
    let name = served.context.as_deref();
    if let Some(name) = name
        && !config.contexts.iter().any(|context| context.name == name)
    {
        let message = format!("context `{name}` is not in the kubeconfig any more");
        return Ok(Some(State::Closed(Closed { reason: "context", message })));
    }
    let target = contexts::target(config, globals, name)?;
    if name.is_none() && !target.context.is_empty() {
        return Err(Failure::failed("a kubeconfig has come that was not there at the start")
            .hint("start the proxy again to use it"));
    }
    match Route::open(target, globals, sources, refresh_on_403) {
        Ok(route) if served.route().is_some_and(|current| current.is_same(&route)) => Ok(None),
        Ok(route) => Ok(Some(State::Open(Arc::new(route)))),
        Err(failure) if failure.code() == Code::NotAllowed => {
            let message = redact(&failure.line()).into_owned();
            Ok(Some(State::Closed(Closed { reason: "policy", message })))
        }
        Err(failure) => Err(failure),
    }
}

fn apply(served: &Served, state: Option<State>) {
    match state {
        None => {}
        Some(state) => {
            match &state {
                State::Open(_) => {
                    tracing::info!(context = served.name, "the context has a new server or user");
                }
                State::Closed(closed) => {
                    tracing::warn!(context = served.name, "not served: {}", closed.message);
                }
            }
            served.set(state);
        }
    }
}
