//! A served context: its address and counters stay, its route changes with the kubeconfig.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use keyward_process::{
    clock::{Clock, SystemClock},
    lock,
};
use keyward_protocol::agent::ProxyContext;
use rustls::pki_types::CertificateDer;

use crate::{
    activity::Activity, certificates::ClientCertificate, refusal::Refusal,
    request_stats::RequestStats, route::Route,
};

/// A context and its counters.
pub(crate) struct ServedContext {
    pub(crate) name: String,
    /// The name in the kubeconfig; `None` if only flags, or the pod we run in, define it.
    pub(crate) entry: Option<String>,
    pub(crate) url: String,
    /// What admits its clients.
    pub(crate) client: ClientCertificate,
    pub(crate) stats: Arc<RequestStats>,
    /// The namespace that clients use if they name none.
    pub(crate) namespace: Mutex<String>,
    /// Why nothing listens at its address.
    pub(crate) fault: Mutex<Option<String>>,
    state: ArcSwap<State>,
    errors: Mutex<VecDeque<NotedError>>,
}

/// How many errors of a context are kept.
const ERRORS: usize = 8;

/// An error that clients were told, without secrets.
#[derive(Debug, Clone)]
pub(crate) struct NotedError {
    /// When it last happened.
    pub(crate) at: Timestamp,
    pub(crate) message: String,
    /// How often it happened in a row.
    pub(crate) times: u64,
}

/// The name of a context without one: defined by flags, or by the pod we run in.
const NAMELESS: &str = "keyward";

/// The reason of a refusal for a context that is in the kubeconfig and cannot be used.
pub(crate) const UNUSABLE: &str = "config";

/// The reason of a refusal for a context that the kubeconfig no longer has.
pub(crate) const REMOVED: &str = "context";

/// What the kubeconfig says of a context.
pub(crate) struct Opening {
    pub(crate) name: String,
    /// The name in the kubeconfig; `None` if only flags, or the pod we run in, define it.
    pub(crate) entry: Option<String>,
    pub(crate) namespace: String,
    pub(crate) state: State,
}

impl From<Route> for Opening {
    fn from(route: Route) -> Self {
        Self {
            name: route.context().unwrap_or_else(|| NAMELESS.to_owned()),
            entry: route.context(),
            namespace: route.target.namespace.clone(),
            state: State::Open(Arc::new(route)),
        }
    }
}

/// Whether requests are forwarded.
pub(crate) enum State {
    Open(Arc<Route>),
    /// The kubeconfig or policy in force does not allow them.
    Closed(Refusal),
}

impl State {
    /// Whether requests get the same answers, over the same connections.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open(one), Self::Open(other)) => one.is_same(other),
            (Self::Closed(one), Self::Closed(other)) => one == other,
            _ => false,
        }
    }
}

impl ServedContext {
    pub(crate) fn new(
        opening: Opening,
        url: String,
        client: ClientCertificate,
        activity: &Arc<Activity>,
    ) -> Self {
        Self {
            name: opening.name,
            entry: opening.entry,
            url,
            client,
            stats: Arc::new(RequestStats::new(activity.clone())),
            namespace: Mutex::new(opening.namespace),
            fault: Mutex::default(),
            state: ArcSwap::from_pointee(opening.state),
            errors: Mutex::default(),
        }
    }

    /// The port of its address, which clients know.
    pub(crate) fn port(&self) -> Option<u16> {
        self.url.rsplit(':').next()?.parse().ok()
    }

    /// The state in force.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// The route, unless the context is closed.
    pub(crate) fn route(&self) -> Option<Arc<Route>> {
        match &*self.state() {
            State::Open(route) => Some(route.clone()),
            State::Closed(_) => None,
        }
    }

    /// Whether the context is closed for this reason, such as [`UNUSABLE`].
    pub(crate) fn is_closed_as(&self, reason: &str) -> bool {
        matches!(&*self.state(), State::Closed(refusal) if refusal.reason == Some(reason))
    }

    /// Puts a state in force. Requests without a response yet are not answered through a closed
    /// route; responses that have begun continue.
    pub(crate) fn set(&self, state: State) {
        let closes = matches!(state, State::Closed(_));
        let before = self.state.swap(Arc::new(state));
        if let State::Open(route) = &*before
            && closes
        {
            route.closed.send_replace(true);
        }
    }

    /// Remembers an error. Returns whether it differs from the one before.
    pub(crate) fn note(&self, error: String) -> bool {
        let now = SystemClock.now();
        let mut errors = lock(&self.errors);
        if let Some(last) = errors.front_mut().filter(|last| last.message == error) {
            last.at = now;
            last.times += 1;
            return false;
        }
        errors.truncate(ERRORS - 1);
        errors.push_front(NotedError { at: now, message: error, times: 1 });
        true
    }

    /// The last errors, the newest first.
    pub(crate) fn errors(&self) -> Vec<NotedError> {
        lock(&self.errors).iter().cloned().collect()
    }
}

/// The contexts of a proxy. Those of a service become more while it runs.
#[derive(Default)]
pub(crate) struct ServedContexts {
    all: ArcSwap<Vec<Arc<ServedContext>>>,
    by_certificate: ArcSwap<HashMap<CertificateDer<'static>, Arc<ServedContext>>>,
    /// Counts changes that clients have to hear of.
    version: AtomicU64,
    /// The version that clients get.
    told: AtomicU64,
}

impl ServedContexts {
    pub(crate) fn new(all: Vec<Arc<ServedContext>>) -> Arc<Self> {
        let contexts = Self::default();
        contexts.set(all);
        Arc::new(contexts)
    }

    /// All of them, also those that the kubeconfig no longer has.
    pub(crate) fn all(&self) -> Arc<Vec<Arc<ServedContext>>> {
        self.all.load_full()
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<ServedContext>> {
        self.all().iter().find(|context| context.name == name).cloned()
    }

    /// The context that a client's certificate is for.
    pub(crate) fn of(&self, certificate: &CertificateDer<'_>) -> Option<Arc<ServedContext>> {
        self.by_certificate.load().get(certificate).cloned()
    }

    /// Adds contexts. Only one thread may.
    pub(crate) fn add(&self, more: Vec<Arc<ServedContext>>) {
        let all = self.all();
        self.set(all.iter().cloned().chain(more).collect());
    }

    fn set(&self, all: Vec<Arc<ServedContext>>) {
        let key = |one: &Arc<ServedContext>| (one.client.certificate.clone(), one.clone());
        self.by_certificate.store(Arc::new(all.iter().map(key).collect()));
        self.all.store(Arc::new(all));
        self.changed();
    }

    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// A number that grows with each change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn set_told(&self, version: u64) {
        self.told.store(version, Ordering::Release);
    }

    /// Whether clients get what is current.
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Acquire) == self.version()
    }

    /// What clients need for each context.
    pub(crate) fn for_clients(&self) -> Vec<ProxyContext> {
        // Also those that the kubeconfig no longer has: the proxy tells their clients so.
        let all = self.all();
        let entry = |context: &Arc<ServedContext>| ProxyContext {
            name: context.name.clone(),
            certificate: context.client.certificate_pem.clone(),
            key: context.client.key_pem.clone(),
            fault: lock(&context.fault).clone().unwrap_or_default(),
        };
        all.iter().map(entry).collect()
    }
}
