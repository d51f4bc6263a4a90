//! Where credentials come from: one source per identity, shared by all clients of the process.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use keyward_protocol::exec::Response;

use keyward_process::{
    clock::{SharedClock, SystemClock},
    lock,
};

use crate::{
    Credential, Error, Plan,
    cell::{self, Cell, Fetch},
    exec::{ExecPlugin, PluginRunner},
    observer::{Ends, NoopObserver, Observer},
    oidc::Renewer,
    plan::{Choice, PlanKey},
    signer::{Certificates, Signer, WrongPins},
    static_credential::StaticFetch,
};

/// Credentials of one identity, for as long as the process lives. Cheap to clone.
#[derive(Clone)]
pub struct Source(Arc<Inner>);

struct Inner {
    id: u64,
    observer: Arc<dyn Observer>,
    holder: Holder,
}

enum Holder {
    /// Nobody in particular.
    Anonymous(Arc<Credential>),
    /// Whatever has to be fetched, if only once.
    Cell(Cell<Credential>),
}

/// The sources of a process: equal plans share one source (EX-14); unused ones are let go.
pub struct Sources {
    clock: SharedClock,
    ends: Arc<Ends>,
    wrong_pins: Arc<WrongPins>,
    known: Mutex<HashMap<PlanKey, Weak<Inner>>>,
}

static GLOBAL: OnceLock<Sources> = OnceLock::new();

impl Sources {
    /// The registry of most programs: the one that [`set_global`](Self::set_global) gave, or one with
    /// the system's clock and without metrics.
    pub fn global() -> &'static Self {
        GLOBAL.get_or_init(|| Self::new(Arc::new(SystemClock), Arc::new(NoopObserver)))
    }

    /// Makes this the registry that [`global`](Self::global) returns, so that an observer sees every
    /// client of the process. Call it before the first client is built: gives the registry back if
    /// there is a global one already.
    pub fn set_global(self) -> Result<(), Self> {
        GLOBAL.set(self)
    }

    /// A registry with a clock and an observer of its own: for metrics (see
    /// [`set_global`](Self::set_global)), for tests, and for programs that want isolation.
    pub fn new(clock: SharedClock, observer: Arc<dyn Observer>) -> Self {
        Self {
            clock,
            ends: Arc::new(Ends::new(observer)),
            wrong_pins: Arc::default(),
            known: Mutex::default(),
        }
    }

    /// The source for a plan. Runs nothing.
    pub fn open(&self, plan: &Plan) -> Source {
        let key = PlanKey::of(plan);
        let mut known = lock(&self.known);
        if let Some(inner) = known.get(&key).and_then(Weak::upgrade) {
            return Source(inner);
        }
        known.retain(|_, inner| inner.strong_count() > 0);
        let inner = Arc::new(self.make(plan));
        known.insert(key, Arc::downgrade(&inner));
        Source(inner)
    }

    /// The plugin of a plan, for programs that decide themselves who runs it and keep what it brings;
    /// `None` for a plan without a plugin. Runs nothing.
    pub fn plugin_runner(&self, plan: Plan) -> Option<PluginRunner> {
        let Choice::Exec(plugin) = &plan.choice else { return None };
        Some(self.runner(Arc::clone(plugin), plan, next_id()))
    }

    fn runner(&self, plugin: Arc<ExecPlugin>, plan: Plan, id: u64) -> PluginRunner {
        PluginRunner::new(plugin, plan, Arc::clone(&self.clock), (id, Arc::clone(&self.ends)))
    }

    fn make(&self, plan: &Plan) -> Inner {
        let id = next_id();
        let clock = || Arc::clone(&self.clock);
        let observer = || Arc::clone(&self.ends.observer);
        let holder = match &plan.choice {
            Choice::Static(fixed) if fixed.is_empty() => {
                Holder::Anonymous(Arc::new(Credential::anonymous()))
            }
            Choice::Static(fixed) => {
                let fetch = StaticFetch::new(fixed.clone(), plan.clone(), clock());
                Holder::Cell(Cell::new(fetch, clock(), true))
            }
            Choice::Exec(plugin) => {
                let runner = self.runner(Arc::clone(plugin), plan.clone(), id);
                Holder::Cell(Cell::new(runner, clock(), true))
            }
            Choice::Oidc(oidc, fixed) => {
                let (oidc, fixed) = (Arc::clone(oidc), fixed.clone());
                let renewer = Renewer::new(oidc, fixed, plan.clone(), clock(), observer());
                Holder::Cell(Cell::new(renewer, clock(), true))
            }
            Choice::Signer(plugin, fixed) => {
                let (plugin, wrong_pins) = (Arc::clone(plugin), Arc::clone(&self.wrong_pins));
                let signer = Signer::new(plugin, plan.clone(), observer(), wrong_pins);
                let header = fixed.header(&plan.target().user.value);
                let certificates = Certificates::new(signer, header, clock());
                // Until its end and not renewed ahead: some tokens ask a person for anything.
                Holder::Cell(Cell::new(certificates, clock(), false))
            }
        };
        Inner { id, observer: observer(), holder }
    }
}

impl Source {
    /// A source for a provider of one's own: `fetch` is called on a thread that may block, its
    /// results are kept, shared and renewed as a plugin's are. It belongs to no registry: clones
    /// of it share its credentials, nothing else does.
    pub fn from_fetch(fetch: impl Fetch<Credential>, clock: SharedClock) -> Self {
        let holder = Holder::Cell(Cell::new(fetch, clock, true));
        Self(Arc::new(Inner { id: next_id(), observer: Arc::new(NoopObserver), holder }))
    }

    /// The credential if one is there and valid: no lock, no allocation, no waiting.
    pub fn current(&self) -> Option<Arc<Credential>> {
        match &self.0.holder {
            Holder::Anonymous(credential) => Some(Arc::clone(credential)),
            Holder::Cell(cell) => cell.current(),
        }
    }

    /// The credential that came last and was not rejected, even past its end: to be told of, not to be
    /// used. Starts nothing.
    pub fn last(&self) -> Option<Arc<Credential>> {
        match &self.0.holder {
            Holder::Anonymous(credential) => Some(Arc::clone(credential)),
            Holder::Cell(cell) => cell.last(),
        }
    }

    /// The credential, running the plugin where needed. Dropping the future frees the caller and
    /// leaves the run to the next one.
    pub async fn credential(&self) -> Result<Arc<Credential>, Error> {
        match &self.0.holder {
            Holder::Anonymous(credential) => Ok(Arc::clone(credential)),
            Holder::Cell(cell) => cell.value().await,
        }
    }

    /// Returns the credential like [`credential`](Self::credential), but blocks the thread.
    pub fn credential_blocking(&self) -> Result<Arc<Credential>, Error> {
        match &self.0.holder {
            Holder::Anonymous(credential) => Ok(Arc::clone(credential)),
            Holder::Cell(cell) => cell.value_blocking(),
        }
    }

    /// A server answered 401 (or 403 where that is opted in) to this credential. With `was_accepted`, the
    /// same server had accepted it before, or another since its last rejection: it was revoked, and the next
    /// caller gets a new one at once.
    pub fn rejected(&self, seen: &Credential, was_accepted: bool, response: Option<Arc<Response>>) {
        if let Holder::Cell(cell) = &self.0.holder {
            self.0.observer.rejected();
            cell.rejected(seen.serial(), was_accepted, response);
        }
    }

    /// Ends a backoff after failures: the next caller runs the plugin at once. For when the reason of
    /// the failure is known to be gone, such as a person who is there to log in now.
    pub fn reset(&self) {
        if let Holder::Cell(cell) = &self.0.holder {
            cell.reset();
        }
    }

    /// What became of the last run, and since when the current credential is there. Starts nothing.
    pub fn history(&self) -> cell::History {
        match &self.0.holder {
            Holder::Anonymous(_) => cell::History::default(),
            Holder::Cell(cell) => cell.history(),
        }
    }

    /// Whether both are the same source.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn next_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("id", &self.0.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}
