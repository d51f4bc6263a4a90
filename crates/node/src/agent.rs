//! The node's agent, through which the pulls of a node share runs and answers of providers.

use std::{
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use keyward_agent::{
    identity::is_harmless,
    store::{Key, Lease, Store, digest_of},
};
use keyward_image::{SharedLease, SharedStore};
use keyward_process::{lock, surroundings::Surroundings};
use keyward_protocol::Secret;

use super::expect_run;

/// A connection to the node's agent.
pub(crate) struct NodeAgent {
    /// One question at a time.
    store: Mutex<Store>,
    /// A provider sees our environment and may choose an account by it, so only equal environments share.
    environment: String,
}

impl NodeAgent {
    /// Connects to the agent; `None` if none serves this process.
    pub(crate) fn connect(surroundings: &Surroundings) -> Option<Arc<Self>> {
        let store = Store::open_system(surroundings);
        if let Some(why) = store.absence() {
            tracing::debug!("nothing is shared with other pulls: {why}");
            return None;
        }
        let environment = environment(surroundings);
        Some(Arc::new(Self { store: Mutex::new(store), environment }))
    }

    /// Whether the agent has answered until now.
    pub(crate) fn is_serving(&self) -> bool {
        lock(&self.store).absence().is_none()
    }

    fn key(&self, name: &str) -> Key {
        Key::new("image").with("environment", self.environment.as_str()).with("name", name)
    }
}

impl SharedStore for NodeAgent {
    fn get(&self, name: &str) -> Option<Secret> {
        lock(&self.store).get(&self.key(name))
    }

    fn get_all(&self, names: &[String]) -> Vec<Option<Secret>> {
        let keys: Vec<Key> = names.iter().map(|name| self.key(name)).collect();
        lock(&self.store).get_all(&keys)
    }

    fn lease(&self, name: &str, limit: Duration) -> SharedLease {
        // What comes next is a run, or a wait for one.
        expect_run();
        match lock(&self.store).lease(&self.key(name), limit) {
            Lease::Found(secret) => SharedLease::Found(secret),
            Lease::Ours => SharedLease::Ours,
            Lease::NoAgent => SharedLease::Unavailable,
        }
    }

    fn put(&self, name: &str, value: Secret, until: i64) {
        let until = Timestamp::from_millisecond(until).unwrap_or(Timestamp::MAX);
        lock(&self.store).put(&self.key(name), value, Some(until));
    }
}

/// A digest of the variables that a provider might choose an account by.
fn environment(surroundings: &Surroundings) -> String {
    let mut vars = surroundings.vars();
    vars.retain(|(name, _)| !is_harmless(name.as_bytes()));
    vars.sort();
    let mut text = Vec::new();
    for part in vars.iter().flat_map(|(name, value)| [name, value]) {
        // No part contains a zero byte.
        text.extend_from_slice(part.as_bytes());
        text.push(0);
    }
    digest_of(&text)
}
