//! Secrets that outlive a process: kept by an agent, if one is running, and nowhere else.
//!
//! Processes that need the same secret at the same time take turns: one of them gets the lease and brings the secret,
//! the others wait for it. If the agent dies, they ask the next one.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod agent;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod agent;

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use jiff::Timestamp;
use keyward_process::surroundings::Surroundings;
use keyward_protocol::Secret;
use sha2::{Digest as _, Sha256};

use self::agent::Agent;

/// What a secret belongs to: everything that makes up the identity, and nothing that changes while the identity
/// stays the same, such as an access key that rotates.
#[derive(Debug, Clone)]
pub struct Key {
    family: &'static str,
    fields: Vec<(&'static str, String)>,
}

/// What came of asking for a lease.
#[derive(Debug)]
pub enum Lease {
    /// The secret is kept already, or another process has just brought it.
    Found(Secret),
    /// Nobody has it: this process brings it and calls [`Store::put`]. Others wait until then.
    Ours,
    /// No agent keeps secrets for this process.
    NoAgent,
}

/// Why the agent keeps nothing.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The agent's named secrets. Without an agent, nothing is kept and nothing fails.
pub struct Store {
    agent: Result<Agent, String>,
}

/// The SHA-256 digest of some bytes in hexadecimal digits, such as that of a secret in a [`Key`].
pub fn digest_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Key {
    /// The key of an identity of this family.
    pub fn new(family: &'static str) -> Self {
        Self { family, fields: Vec::new() }
    }

    /// Adds a field; order does not matter.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The name under which the agent keeps the secret: it shows nothing of the fields.
    pub fn name(&self) -> String {
        let mut fields = self.fields.clone();
        fields.sort_unstable();
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            // With its length, so that no two lists of fields can look the same.
            digest.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(text.as_bytes());
        };
        add(self.family);
        for (name, value) in &fields {
            add(name);
            add(value);
        }
        format!("{}/{}", self.family, hex(&digest.finalize()))
    }
}

impl Store {
    /// Connects to the agent, if one is running. Never starts one.
    pub fn open(surroundings: &Surroundings) -> Self {
        Self::with(Agent::connect(surroundings))
    }

    /// Connects to the node's agent, if one is running: `keyward agent --system`, which serves root alone.
    pub fn open_system(surroundings: &Surroundings) -> Self {
        Self::with(Agent::connect_system(surroundings))
    }

    /// Connects to the agent, and starts it if it is installed and none is running. For logins that a person
    /// would otherwise have to repeat.
    pub fn open_or_start(surroundings: &Surroundings) -> Self {
        Self::with(Agent::connect_or_start(surroundings))
    }

    fn with(agent: Result<Agent, Failure>) -> Self {
        Self { agent: agent.map_err(|why| why.to_string()) }
    }

    /// A store that keeps nothing, and why.
    pub fn closed(why: &str) -> Self {
        Self { agent: Err(why.to_owned()) }
    }

    /// Why nothing is kept; `None` if the agent is.
    pub fn absence(&self) -> Option<&str> {
        self.agent.as_ref().err().map(String::as_str)
    }

    /// The secret, if it is kept.
    pub fn get(&mut self, key: &Key) -> Option<Secret> {
        self.get_all(std::slice::from_ref(key)).pop().flatten()
    }

    /// Several secrets, those that are kept, in one exchange with the agent.
    pub fn get_all(&mut self, keys: &[Key]) -> Vec<Option<Secret>> {
        let names = keys.iter().map(Key::name).collect();
        self.ask(|agent| agent.get_all(names))
            .unwrap_or_else(|| keys.iter().map(|_| None).collect())
    }

    /// The secret, or the right to bring it. Waits up to `limit` while another process has that right.
    pub fn lease(&mut self, key: &Key, limit: Duration) -> Lease {
        self.lease_or_tell(key, limit, || ())
    }

    /// The secret, or the right to bring it, as [`Store::lease`] has it. Calls `waits` before a long wait.
    pub fn lease_or_tell(&mut self, key: &Key, limit: Duration, waits: impl FnOnce()) -> Lease {
        self.ask(|agent| agent.lease(key.name(), limit, waits)).unwrap_or(Lease::NoAgent)
    }

    /// Keeps a secret until it expires, at most twelve hours, and gives it to those who wait for it. One that has
    /// expired already is given to them and not kept.
    pub fn put(&mut self, key: &Key, secret: Secret, until: Option<Timestamp>) {
        let until = until.map_or(0, Timestamp::as_millisecond);
        self.ask(|agent| agent.put(key.name(), secret, until));
    }

    /// Forgets a secret that turned out to be useless.
    pub fn forget(&mut self, key: &Key) {
        self.ask(|agent| agent.forget(key.name()));
    }

    /// Asks the agent; one that fails is not asked again.
    fn ask<T>(&mut self, question: impl FnOnce(&mut Agent) -> Result<T, Failure>) -> Option<T> {
        let agent = self.agent.as_mut().ok()?;
        match question(agent) {
            Ok(answer) => Some(answer),
            Err(why) => {
                self.agent = Err(why.to_string());
                None
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("absence", &self.absence()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_depends_on_every_field_and_not_on_their_order() {
        let key = Key::new("eks").with("a", "1").with("b", "2").name();
        assert_eq!(key, Key::new("eks").with("b", "2").with("a", "1").name());
        assert!(key.starts_with("eks/") && key.len() == 4 + 64, "{key}");
        for other in [
            Key::new("oidc").with("a", "1").with("b", "2"),
            Key::new("eks").with("a", "1").with("b", "3"),
            Key::new("eks").with("a", "1b").with("", "2"),
            Key::new("eks").with("a", "1"),
        ] {
            assert_ne!(key, other.name());
        }
    }

    #[test]
    fn without_an_agent_nothing_is_kept_and_nothing_fails() {
        let mut store = Store::closed("none wanted");
        let key = Key::new("eks");
        store.put(&key, Secret::new("s"), None);
        assert!(store.get(&key).is_none());
        assert!(matches!(store.lease(&key, Duration::ZERO), Lease::NoAgent));
        assert_eq!(store.absence(), Some("none wanted"));
    }
}
