//! A grant in force: who uses it, and how it ends.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use tokio::{sync::watch, task::AbortHandle};

use super::{GrantStatus, StoredGrant, audit::AuditLog, relay, store::Places};
use crate::context::ServedContexts;

/// How many requests are remembered.
const RECENT: usize = 20;

/// How many connections a consumer may have open. They and those to its socket must not use up the files
/// that the proxy can open.
pub(super) const MOST_CONNECTIONS: u32 = 128;

/// A grant in force.
pub(crate) struct Grant {
    pub(crate) name: String,
    pub(crate) context: String,
    pub(super) expires: Timestamp,
    pub(super) stored: StoredGrant,
    pub(super) log: AuditLog,
    pub(super) requests: AtomicU64,
    pub(super) denied: AtomicU64,
    /// Whom its requests act as.
    headers: Vec<(HeaderName, HeaderValue)>,
    connections: AtomicU64,
    recent: Mutex<VecDeque<RecentRequest>>,
    ended: watch::Sender<bool>,
    listener: Mutex<Option<AbortHandle>>,
}

/// A request of a grant's consumer.
#[derive(Debug, Clone)]
pub struct RecentRequest {
    /// When it came.
    pub at: Timestamp,
    /// The API server's verb, or the method in lower case.
    pub verb: String,
    /// The resource with its subresource and group, such as `pods/log`; or a path.
    pub resource: String,
    /// The namespace; empty if it has none.
    pub namespace: String,
    /// The name of the object; empty if it has none.
    pub name: String,
    /// The answer's code; `None` if the consumer left before.
    pub status: Option<u16>,
    /// Whether the grant allows it.
    pub allowed: bool,
}

impl Grant {
    pub(super) fn new(stored: StoredGrant, places: &Places) -> Self {
        Self {
            name: stored.name.clone(),
            context: stored.context.clone(),
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

    pub(super) fn status(&self) -> GrantStatus {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        GrantStatus {
            name: self.name.clone(),
            context: self.context.clone(),
            rules: self.stored.rules.words(),
            expires: self.expires,
            requests: self.requests.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            recent: recent.iter().rev().cloned().collect(),
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
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == RECENT {
            recent.pop_front();
        }
        recent.push_back(request);
    }

    /// Returns when the grant has ended.
    pub(crate) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Ends all that goes on under it.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = listener.take() {
            task.abort();
        }
    }

    /// Listens on the consumer's socket, if it has one and nobody listens yet.
    pub(super) fn listen(&self, places: &Places, contexts: &ServedContexts) {
        if self.is_listening() {
            return;
        }
        let Some(context) = contexts.named(&self.context) else { return };
        let address = context.url.trim_start_matches("https://").to_owned();
        let (private, socket) = (places.private_socket(&self.name), places.socket(&self.name));
        match relay::listen(&private, &socket, address) {
            Ok(task) => {
                *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
            }
            Err(error) => {
                tracing::debug!(%error, "grant `{}` has no socket", self.name);
            }
        }
    }

    /// Whether nothing is left to listen on.
    pub(super) fn is_listening(&self) -> bool {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A connection of a grant's consumer.
pub(crate) struct Connected(Arc<Grant>);

impl Connected {
    /// Returns when the grant has ended.
    pub(crate) async fn ended(&self) {
        self.0.ended().await;
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
