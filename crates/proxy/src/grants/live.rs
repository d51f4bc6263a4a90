//! A grant in force: who uses it, and how it ends.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use keyward_process::lock;
use tokio::{sync::watch, task::AbortHandle};

use super::{StoredGrant, audit::AuditLog, relay, store::Places};
use crate::context::ServedContexts;

/// How many requests are remembered.
const RECENT: usize = 20;

/// How many connections a consumer may have open. They and those to its socket must not use up the files
/// that the proxy can open.
pub(super) const MOST_CONNECTIONS: u32 = 128;

/// A grant in force.
pub(crate) struct Grant {
    pub(crate) stored: StoredGrant,
    pub(crate) expires: Timestamp,
    pub(super) log: AuditLog,
    pub(crate) requests: AtomicU64,
    pub(crate) denied: AtomicU64,
    /// Whom its requests act as.
    headers: Vec<(HeaderName, HeaderValue)>,
    /// How many connections and upgraded streams are open.
    pub(crate) connections: AtomicU64,
    /// The last requests, the newest last.
    pub(crate) recent: Mutex<VecDeque<RecentRequest>>,
    ended: watch::Sender<bool>,
    listener: Mutex<Option<AbortHandle>>,
}

/// A request of a grant's consumer.
pub(crate) struct RecentRequest {
    pub(crate) at: Timestamp,
    /// The API server's verb, or the method in lower case.
    pub(crate) verb: String,
    /// The resource with its subresource and group, such as `pods/log`; or a path.
    pub(crate) resource: String,
    /// Empty if it has none.
    pub(crate) namespace: String,
    /// The name of the object; empty if it has none.
    pub(crate) name: String,
    /// The answer's code; `None` if the consumer left before.
    pub(crate) status: Option<u16>,
    pub(crate) allowed: bool,
}

impl Grant {
    pub(super) fn new(stored: StoredGrant, places: &Places) -> Self {
        Self {
            expires: stored.end().unwrap_or_default(),
            log: AuditLog::new(places.log(&stored.name)),
            requests: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            headers: stored.rules.headers().unwrap_or_default(),
            connections: AtomicU64::new(0),
            recent: Mutex::default(),
            ended: watch::channel(false).0,
            listener: Mutex::default(),
            stored,
        }
    }

    /// Lets its requests act as the user of the rules. The consumer's own headers of this kind were
    /// refused.
    pub(crate) fn impersonate(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.append(name.clone(), value.clone());
        }
    }

    pub(super) fn remember(&self, request: RecentRequest) {
        let mut recent = lock(&self.recent);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(request);
    }

    /// Ends all that goes on under it.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
        let mut listener = lock(&self.listener);
        if let Some(task) = listener.take() {
            task.abort();
        }
    }

    /// Listens on the consumer's socket, if it has one and nobody listens yet.
    pub(super) fn listen(&self, places: &Places, contexts: &ServedContexts) {
        if self.is_listening() {
            return;
        }
        let Some(context) = contexts.named(&self.stored.context) else { return };
        let address = context.url.trim_start_matches("https://").to_owned();
        let name = &self.stored.name;
        let (private, socket) = (places.private_socket(name), places.socket(name));
        match relay::listen(&private, &socket, address) {
            Ok(task) => {
                *lock(&self.listener) = Some(task);
            }
            Err(error) => {
                tracing::debug!(%error, "grant `{}` has no socket", name);
            }
        }
    }

    /// Whether nothing is left to listen on.
    pub(super) fn is_listening(&self) -> bool {
        let listener = lock(&self.listener);
        !self.stored.socket || listener.is_some()
    }

    /// Counts a connection until the result is dropped; `None` if there are too many.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Connected> {
        let connected = self.enter();
        let open = self.connections.load(Ordering::Relaxed);
        (open <= MOST_CONNECTIONS.into()).then_some(connected)
    }

    /// Counts an upgraded stream, whose connection was admitted, until the result is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }
}

/// Returns when the grant that a client acts under has ended; never without a grant.
pub(crate) async fn ended(grant: Option<&Arc<Grant>>) {
    match grant {
        Some(grant) => _ = grant.ended.subscribe().wait_for(|ended| *ended).await,
        None => pending().await,
    }
}

/// A connection of a grant's consumer.
pub(crate) struct Connected(pub(crate) Arc<Grant>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
