//! Watches the kubeconfig, the kuberc and the CA certificates of the clusters while the proxy runs.
//!
//! A valid new version is in force at once, for every later request; responses that have begun
//! continue. An invalid version is reported, and the previous one stays in force; if only some contexts
//! are invalid, this goes for them. A context that the policy of a new version denies is closed, even if
//! it has a credential.

use std::{
    fs,
    os::unix::fs::FileTypeExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::{Kubeconfig, Reload, ReloadPace, redact::redact};
use keyward_process::{
    clock::{Clock, SystemClock},
    lock,
};

use crate::{
    Config, Contexts, Error, Kind,
    context::{REMOVED, ServedContext, ServedContexts, State, UNUSABLE},
    growth::{self, Growth},
    refusal::Refusal,
    route::Routes,
};

/// How often the files are checked, and how long one that is written in place must stay unchanged.
const PACE: ReloadPace =
    ReloadPace { every: Duration::from_millis(250), confirm: Duration::from_millis(100) };

/// How many changes were applied, and what is wrong with the last one.
#[derive(Debug)]
pub(crate) struct ReloadStats {
    pub(crate) taken: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) last: Mutex<Last>,
}

#[derive(Debug)]
pub(crate) struct Last {
    /// When the version in force was loaded.
    pub(crate) since: Timestamp,
    /// Why a newer version is not in force, and since when.
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
}

/// The files whose changes count.
pub(crate) struct WatchedFiles {
    /// The kubeconfig and the kuberc.
    config: Reload,
    /// The CA certificates that the clusters of the kubeconfig name.
    authorities: Reload,
    /// The contexts whose clusters count; all without a list.
    contexts: Option<Vec<String>>,
    /// The kubeconfig, if it came from a pipe, which can be read only once.
    piped: Option<Kubeconfig>,
}

impl WatchedFiles {
    /// Reads the kubeconfig. A later change of the files counts, even one before the contexts read them.
    pub(crate) fn read(
        config: &dyn Config,
        contexts: &Contexts,
    ) -> (Self, Result<Kubeconfig, Error>) {
        let (files, authorities) = (watch(config.files()), watch(Vec::new()));
        let kubeconfig = config.kubeconfig();
        let mut watched = Self { config: files, authorities, contexts: None, piped: None };
        if let Ok(kubeconfig) = &kubeconfig {
            watched.contexts = match contexts {
                Contexts::Current => Some(vec![kubeconfig.current_context.clone()]),
                Contexts::Named(names) => Some(names.clone()),
                Contexts::All | Contexts::Every => None,
            };
            watched.watch_authorities(config, kubeconfig);
            let is_pipe =
                |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
            if config.files().iter().any(is_pipe) {
                watched.piped = Some(kubeconfig.clone());
            }
        }
        (watched, kubeconfig)
    }

    /// The kubeconfig, if a file has changed.
    fn look(&mut self, config: &dyn Config) -> Option<Result<Kubeconfig, Error>> {
        let piped = &self.piped;
        let read = || piped.clone().map_or_else(|| config.kubeconfig(), Ok);
        let mut changed = self.config.look(read);
        // While the kubeconfig is being written, half of it would be read.
        if changed.is_none() && !self.config.is_pending() {
            changed = self.authorities.look(read);
        }
        if let Some(Ok(kubeconfig)) = &changed {
            // Before the contexts read them, so that a change in between is noticed.
            self.watch_authorities(config, kubeconfig);
        }
        changed
    }

    fn watch_authorities(&mut self, config: &dyn Config, kubeconfig: &Kubeconfig) {
        let contexts = self.contexts.as_deref();
        self.authorities = watch(kubeconfig.authority_files(contexts, config.surroundings()));
    }

    /// Whether a change is not complete yet, so that the next look should come soon.
    fn is_pending(&self) -> bool {
        self.config.is_pending() || self.authorities.is_pending()
    }
}

fn watch(files: Vec<PathBuf>) -> Reload {
    Reload::new(files, PACE.confirm, Arc::new(SystemClock))
}

/// Gives contexts new routes when the files change.
pub(crate) struct Reloader {
    pub(crate) files: WatchedFiles,
    pub(crate) routes: Routes,
    pub(crate) contexts: Arc<ServedContexts>,
    pub(crate) reloads: Arc<ReloadStats>,
    /// Takes in new contexts, in a service.
    pub(crate) growth: Option<Growth>,
}

impl Reloader {
    /// Watches until it is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let pause = if self.files.is_pending() { PACE.confirm } else { PACE.every };
            tokio::time::sleep(pause).await;
            // Files may be on a slow disk, and hundreds of contexts take time.
            let looked = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            let Ok(back) = looked.await else { return };
            self = back;
        }
    }

    fn look(&mut self) {
        let routes = &self.routes;
        let read = self.files.look(&*routes.config);
        let done = if let Some(growth) = &mut self.growth {
            let done = read.map(|read| read.map(|kubeconfig| growth.apply(&kubeconfig, routes)));
            growth.settle();
            done
        } else {
            let all = self.contexts.all();
            read.map(|read| read.and_then(|kubeconfig| renew(&all, &kubeconfig, routes)))
        };
        let now = SystemClock.now();
        match done {
            None => {}
            Some(Ok(())) => {
                self.reloads.taken.fetch_add(1, Ordering::Relaxed);
                *lock(&self.reloads.last) = Last { since: now, fault: None };
                tracing::info!(
                    "the kubeconfig, the kuberc or a CA file has changed and was reloaded"
                );
            }
            Some(Err(error)) => {
                self.reloads.broken.fetch_add(1, Ordering::Relaxed);
                let message = redact(&error.line()).into_owned();
                tracing::warn!(
                    "the kubeconfig, the kuberc or a CA file has changed but is not valid, so the old version stays in force: {message}"
                );
                lock(&self.reloads.last).fault = Some((now, message));
            }
        }
    }
}

/// Gives each context its new state. One whose new version is not valid keeps what it has, and does not keep the
/// others from getting theirs: their plugins may have been denied. The first error of these is returned.
fn renew(
    contexts: &[Arc<ServedContext>],
    kubeconfig: &Kubeconfig,
    routes: &Routes,
) -> Result<(), Error> {
    let mut done = Ok(());
    for context in contexts {
        match state(context, kubeconfig, routes) {
            Ok(state) => apply(context, state),
            Err(error) => done = done.and(Err(error)),
        }
    }
    done
}

/// The new state of a context; `None` if it does not change.
fn state(
    context: &ServedContext,
    kubeconfig: &Kubeconfig,
    routes: &Routes,
) -> Result<Option<State>, Error> {
    let name = context.entry.as_deref();
    if let Some(name) = name
        && !kubeconfig.contexts.iter().any(|context| context.name == name)
    {
        return Ok(Some(removed(name)));
    }
    let opened = routes.config.target(kubeconfig, name).and_then(|target| {
        if name.is_none() && !target.context.is_empty() {
            return Err(Error::failed("a kubeconfig appeared that did not exist at the start")
                .hint("restart the proxy to use it"));
        }
        routes.open(target)
    });
    match opened {
        Ok(route) if context.route().is_some_and(|current| current.is_same(&route)) => Ok(None),
        Ok(route) => Ok(Some(State::Open(Arc::new(route)))),
        Err(error) if error.kind() == Kind::NotAllowed => {
            let message = redact(&error.line()).into_owned();
            Ok(Some(State::Closed(Refusal::closed("policy", message))))
        }
        // One of many that cannot be used, as before: what it answers is why.
        Err(error) if context.is_closed_as(UNUSABLE) => {
            let state = growth::closed(&context.name, String::new(), &error).state;
            Ok(Some(state).filter(|state| !context.state().is_same(state)))
        }
        Err(error) => Err(error),
    }
}

/// The state of a context that the kubeconfig no longer has.
pub(crate) fn removed(name: &str) -> State {
    let message = format!("context `{name}` is no longer in the kubeconfig");
    State::Closed(Refusal::closed(REMOVED, message))
}

pub(crate) fn apply(context: &ServedContext, state: Option<State>) {
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
