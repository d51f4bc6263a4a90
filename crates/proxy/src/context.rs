//! A served context: its address and counters stay, its route changes with the kubeconfig.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use keyward_process::clock::{Clock, SystemClock};

use crate::{
    refusal::Refusal,
    request_stats::{Activity, RequestStats},
    route::Route,
};

/// A context and its counters.
pub(crate) struct ServedContext {
    pub(crate) name: String,
    /// The name in the kubeconfig; `None` if only flags, or the pod we run in, define it.
    pub(crate) entry: Option<String>,
    pub(crate) namespace: String,
    pub(crate) url: String,
    pub(crate) stats: Arc<RequestStats>,
    state: ArcSwap<State>,
    last_error: Mutex<Option<(Timestamp, String)>>,
}

/// Whether requests are forwarded.
pub(crate) enum State {
    Open(Arc<Route>),
    /// The kubeconfig or policy in force does not allow them.
    Closed(Refusal),
}

impl ServedContext {
    pub(crate) fn new(route: Route, url: String, activity: &Arc<Activity>) -> Self {
        Self {
            name: route.name().to_owned(),
            entry: route.context.clone(),
            namespace: route.target.namespace.clone(),
            url,
            stats: Arc::new(RequestStats::new(activity.clone())),
            state: ArcSwap::from_pointee(State::Open(Arc::new(route))),
            last_error: Mutex::default(),
        }
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

    /// Remembers the last error. Returns whether it differs from the one before.
    pub(crate) fn note(&self, error: String) -> bool {
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        let new = last.as_ref().is_none_or(|(_, before)| *before != error);
        *last = Some((SystemClock.now(), error));
        new
    }

    /// The last error, and when it happened.
    pub(crate) fn last_error(&self) -> Option<(Timestamp, String)> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
