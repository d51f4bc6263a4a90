//! Secrets that outlive this process: kept by Keyward's agent, if one is running, and nowhere else.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use keyward_process::surroundings::Surroundings;
use keyward_protocol::Secret;
use ring::digest::{Context, SHA256};

/// What a secret belongs to: everything that makes up the identity, and nothing that changes while the identity
/// stays the same, such as an access key that rotates.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    family: &'static str,
    fields: Vec<(&'static str, String)>,
}

/// What came of asking for a lease.
#[derive(Debug)]
pub(crate) enum Lease {
    /// The secret is kept already, or another process has just brought it.
    Found(Secret),
    /// Nobody has it: this process brings it and calls [`Store::put`]. Others wait until then.
    Ours,
    /// No agent keeps secrets for this process.
    NoAgent,
}

/// The agent's named secrets. Without an agent, nothing is kept and nothing fails.
pub(crate) struct Store {
    agent: Result<Agent, String>,
}

impl Key {
    /// The key of an identity of this family.
    pub(crate) fn new(family: &'static str) -> Self {
        Self { family, fields: Vec::new() }
    }

    /// Adds a field; order does not matter.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The name under which the agent keeps the secret: it shows nothing of the fields.
    pub(crate) fn name(&self) -> String {
        let mut fields = self.fields.clone();
        fields.sort_unstable();
        let mut digest = Context::new(&SHA256);
        let mut add = |text: &str| {
            // With its length, so that no two lists of fields can look the same.
            digest.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(text.as_bytes());
        };
        add(self.family);
        for (name, value) in &fields {
            add(name);
            add(value);
        }
        let digest = digest.finish();
        digest
            .as_ref()
            .iter()
            .fold(format!("{}/", self.family), |name, byte| format!("{name}{byte:02x}"))
    }
}

impl Store {
    /// Connects to the agent, if one is running. Never starts one.
    #[allow(dead_code, reason = "which families use it depends on the features")]
    pub(crate) fn open(surroundings: &Surroundings) -> Self {
        Self { agent: Agent::connect(surroundings) }
    }

    /// Connects to the agent, and starts it if it is installed and none is running. For logins that a person
    /// would otherwise have to repeat.
    #[allow(dead_code, reason = "which families use it depends on the features")]
    pub(crate) fn open_or_start(surroundings: &Surroundings) -> Self {
        Self { agent: Agent::connect_or_start(surroundings) }
    }

    /// A store that keeps nothing, and why.
    #[allow(dead_code, reason = "which families use it depends on the features")]
    pub(crate) fn closed(why: &str) -> Self {
        Self { agent: Err(why.to_owned()) }
    }

    /// Why nothing is kept; `None` if the agent is.
    pub(crate) fn absence(&self) -> Option<&str> {
        self.agent.as_ref().err().map(String::as_str)
    }

    /// The secret, if it is kept.
    #[allow(dead_code, reason = "which families use it depends on the features")]
    pub(crate) fn get(&mut self, key: &Key) -> Option<Secret> {
        self.ask(|agent| agent.get(key.name())).flatten()
    }

    /// The secret, or the right to bring it. Waits up to `limit` while another process has that right.
    #[allow(dead_code, reason = "which families use it depends on the features")]
    pub(crate) fn lease(&mut self, key: &Key, limit: Duration) -> Lease {
        self.lease_or_tell(key, limit, || ())
    }

    /// The secret, or the right to bring it, as [`Store::lease`] has it. Calls `waits` before a long wait.
    pub(crate) fn lease_or_tell(
        &mut self,
        key: &Key,
        limit: Duration,
        waits: impl FnOnce(),
    ) -> Lease {
        self.ask(|agent| agent.lease(key.name(), limit, waits)).unwrap_or(Lease::NoAgent)
    }

    /// Keeps a secret until it expires, at most twelve hours, and gives it to those who wait for it.
    pub(crate) fn put(&mut self, key: &Key, secret: Secret, until: Option<Timestamp>) {
        let until = until.map_or(0, Timestamp::as_millisecond);
        self.ask(|agent| agent.put(key.name(), secret, until));
    }

    /// Forgets a secret that turned out to be useless.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.ask(|agent| agent.forget(key.name()));
    }

    /// Asks the agent; one that fails is not asked again.
    fn ask<T>(&mut self, question: impl FnOnce(&mut Agent) -> Result<T, String>) -> Option<T> {
        let agent = self.agent.as_mut().ok()?;
        match question(agent) {
            Ok(answer) => Some(answer),
            Err(why) => {
                self.agent = Err(why);
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

#[cfg(target_os = "linux")]
use linux::Agent;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        path::{Path, PathBuf},
        time::Duration,
    };

    use keyward_agent::{Address, Client, PATIENCE, Unreachable, is_off};
    use keyward_process::{harden::Inspection, surroundings::Surroundings};
    use keyward_protocol::{
        Secret,
        agent::{Message, SecretRequest, Served},
    };

    use super::Lease;

    /// How long a wait is too short to tell people about.
    const SOON: Duration = Duration::from_secs(1);

    /// A connection to the agent.
    pub(super) struct Agent {
        client: Client,
        greeted: bool,
    }

    impl Agent {
        pub(super) fn connect(surroundings: &Surroundings) -> Result<Self, String> {
            let var = |name: &str| surroundings.var(name);
            if is_off(var) {
                return Err("`CI` is set, or `KEYWARD_AGENT=off`".into());
            }
            let address = Address::find(var).map_err(|error| error.to_string())?;
            let client = Client::connect(&address.socket).map_err(|error| error.to_string())?;
            Ok(Self { client, greeted: false })
        }

        pub(super) fn get(&mut self, name: String) -> Result<Option<Secret>, String> {
            match self.ask(SecretRequest::Get(name), PATIENCE)? {
                Served::Done(secret) => Ok(Some(secret)),
                Served::Absent => Ok(None),
                other => Err(unexpected(&other)),
            }
        }

        pub(super) fn connect_or_start(surroundings: &Surroundings) -> Result<Self, String> {
            let var = |name: &str| surroundings.var(name);
            match (Self::connect(surroundings), installed(surroundings)) {
                (Err(_), Some(program)) if !is_off(var) => {
                    let address = Address::find(var).map_err(|error| error.to_string())?;
                    let started = keyward_agent::connect_or_start(&address, &program, var);
                    let client = started.map_err(|error| error.to_string())?;
                    Ok(Self { client, greeted: false })
                }
                (connected, _) => connected,
            }
        }

        pub(super) fn lease(
            &mut self,
            name: String,
            limit: Duration,
            waits: impl FnOnce(),
        ) -> Result<Lease, String> {
            self.send(SecretRequest::Lease(name)).map_err(|error| error.to_string())?;
            let served = match self.client.receive(SOON) {
                Err(Unreachable::Late) => {
                    waits();
                    self.client.receive(limit)
                }
                served => served,
            };
            match answered(served)? {
                Served::Done(secret) => Ok(Lease::Found(secret)),
                Served::Leased => Ok(Lease::Ours),
                other => Err(unexpected(&other)),
            }
        }

        pub(super) fn put(
            &mut self,
            name: String,
            secret: Secret,
            until: i64,
        ) -> Result<(), String> {
            match self.ask(SecretRequest::Put(name, secret, until), PATIENCE)? {
                Served::Done(_) => Ok(()),
                other => Err(unexpected(&other)),
            }
        }

        pub(super) fn forget(&mut self, name: String) -> Result<(), String> {
            self.ask(SecretRequest::Forget(name), PATIENCE).map(drop)
        }

        fn ask(&mut self, request: SecretRequest, limit: Duration) -> Result<Served, String> {
            answered(self.send(request).and_then(|()| self.client.receive(limit)))
        }

        fn send(&mut self, request: SecretRequest) -> Result<(), Unreachable> {
            let message = Message::Secret(request);
            if self.greeted {
                return self.client.send(&message);
            }
            // The agent looks at this process once, before it greets.
            let inspection = Inspection::begin();
            let greeted = self.client.ask(&message).and_then(|()| self.client.greeted());
            drop(inspection);
            self.greeted = greeted.is_ok();
            greeted
        }
    }

    fn answered(message: Result<Message, Unreachable>) -> Result<Served, String> {
        match message {
            Ok(Message::Served(served)) => Ok(served),
            Ok(Message::Direct(why)) => {
                Err(format!("the agent does not serve this process: {why}"))
            }
            Ok(_) => Err("the agent speaks another protocol".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// `keyward` or `keyward-agent` beside this program or on `PATH`.
    fn installed(surroundings: &Surroundings) -> Option<PathBuf> {
        let own = std::env::current_exe().ok();
        let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = surroundings.var("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        let directories = beside.into_iter().chain(on_path);
        let mut programs = directories
            .flat_map(|directory| [directory.join("keyward-agent"), directory.join("keyward")]);
        programs.find(|program| program.is_file())
    }

    fn unexpected(served: &Served) -> String {
        match served {
            Served::Not(why) => format!("the agent keeps no secrets: {why}"),
            _ => "the agent gave another answer than was asked for".into(),
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::Agent;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::Duration;

    use keyward_process::surroundings::Surroundings;
    use keyward_protocol::Secret;

    use super::Lease;

    /// Never constructed: the agent exists on Linux only.
    pub(super) enum Agent {}

    impl Agent {
        pub(super) fn connect(_: &Surroundings) -> Result<Self, String> {
            Err("the agent exists on Linux only".into())
        }

        pub(super) fn connect_or_start(surroundings: &Surroundings) -> Result<Self, String> {
            Self::connect(surroundings)
        }

        pub(super) fn get(&mut self, _: String) -> Result<Option<Secret>, String> {
            match *self {}
        }

        pub(super) fn lease(
            &mut self,
            _: String,
            _: Duration,
            _: impl FnOnce(),
        ) -> Result<Lease, String> {
            match *self {}
        }

        pub(super) fn put(&mut self, _: String, _: Secret, _: i64) -> Result<(), String> {
            match *self {}
        }

        pub(super) fn forget(&mut self, _: String) -> Result<(), String> {
            match *self {}
        }
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
