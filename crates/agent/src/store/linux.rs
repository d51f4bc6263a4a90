//! A connection to the agent, for secrets.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_process::{harden::Inspection, surroundings::Surroundings};
use keyward_protocol::{
    Secret,
    agent::{Message, SecretRequest, Served},
};

use super::{Failure, Lease};
use crate::{Address, Client, PATIENCE, Unreachable, connect_or_start, is_off, until_answered};

/// How long a wait is too short to tell people about.
const SOON: Duration = Duration::from_secs(1);

/// How long the node's agent may take to greet: systemd starts it when the first client connects.
const STARTING: Duration = Duration::from_secs(5);

/// A connection to the agent.
pub(super) struct Agent {
    socket: PathBuf,
    patience: Duration,
    client: Client,
    greeted: bool,
}

impl Agent {
    pub(super) fn connect(surroundings: &Surroundings) -> Result<Self, Failure> {
        let var = |name: &str| surroundings.var(name);
        if is_off(var) {
            return Err("`CI` is set, or `KEYWARD_AGENT=off`".into());
        }
        Ok(Self::at(Address::find(var)?.socket, PATIENCE)?)
    }

    pub(super) fn connect_system(surroundings: &Surroundings) -> Result<Self, Failure> {
        let var = |name: &str| surroundings.var(name);
        if var("KEYWARD_AGENT").is_some_and(|value| value == "off") {
            return Err("`KEYWARD_AGENT=off`".into());
        }
        let address = Address::system(var)?;
        address.check()?;
        Ok(Self::at(address.socket, STARTING)?)
    }

    pub(super) fn connect_or_start(surroundings: &Surroundings) -> Result<Self, Failure> {
        let var = |name: &str| surroundings.var(name);
        match (Self::connect(surroundings), installed(surroundings)) {
            (Err(_), Some(program)) if !is_off(var) => {
                let address = Address::find(var)?;
                let client = connect_or_start(&address, &program, var)?;
                Ok(Self { socket: address.socket, patience: PATIENCE, client, greeted: false })
            }
            (connected, _) => connected,
        }
    }

    fn at(socket: PathBuf, patience: Duration) -> Result<Self, Unreachable> {
        let client = Client::connect(&socket)?.with_patience(patience);
        Ok(Self { socket, patience, client, greeted: false })
    }

    /// All of them in one exchange of messages.
    pub(super) fn get_all(&mut self, names: Vec<String>) -> Result<Vec<Option<Secret>>, Failure> {
        let gets: Vec<Message> =
            names.into_iter().map(|name| Message::Secret(SecretRequest::Get(name))).collect();
        let served = self.talk(&gets, |client| {
            let mut served = Vec::with_capacity(gets.len());
            // Nothing comes after a refusal.
            let mut is_over = false;
            while served.len() < gets.len() && !is_over {
                let message = client.receive(PATIENCE)?;
                is_over = !matches!(message, Message::Served(Served::Done(_) | Served::Absent));
                served.push(message);
            }
            Ok(served)
        })?;
        let secret = |message| match answered(message)? {
            Served::Done(secret) => Ok(Some(secret)),
            Served::Absent => Ok(None),
            other => Err(unexpected(other)),
        };
        served.into_iter().map(secret).collect()
    }

    pub(super) fn lease(
        &mut self,
        name: String,
        limit: Duration,
        waits: impl FnOnce(),
    ) -> Result<Lease, Failure> {
        let mut waits = Some(waits);
        let served =
            self.talk(&[Message::Secret(SecretRequest::Lease(name))], |client| {
                match client.receive(SOON.min(limit)) {
                    Err(Unreachable::Late) if limit > SOON => {
                        if let Some(waits) = waits.take() {
                            waits();
                        }
                        client.receive(limit.saturating_sub(SOON))
                    }
                    served => served,
                }
            });
        match answered(served?)? {
            Served::Done(secret) => Ok(Lease::Found(secret)),
            Served::Leased => Ok(Lease::Ours),
            other => Err(unexpected(other)),
        }
    }

    pub(super) fn put(&mut self, name: String, secret: Secret, until: i64) -> Result<(), Failure> {
        match self.ask(SecretRequest::Put(name, secret, until))? {
            Served::Done(_) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    pub(super) fn forget(&mut self, name: String) -> Result<(), Failure> {
        self.ask(SecretRequest::Forget(name)).map(drop)
    }

    fn ask(&mut self, request: SecretRequest) -> Result<Served, Failure> {
        answered(self.talk(&[Message::Secret(request)], |client| client.receive(PATIENCE))?)
    }

    /// Sends requests and waits for the answers; if the agent goes away, from the next one.
    fn talk<T>(
        &mut self,
        messages: &[Message],
        mut receive: impl FnMut(&mut Client) -> Result<T, Unreachable>,
    ) -> Result<T, Failure> {
        let mut is_gone = false;
        let served = until_answered(|| {
            if is_gone {
                *self = Self::at(self.socket.clone(), self.patience)?;
            }
            is_gone = true;
            self.send(messages)?;
            receive(&mut self.client)
        });
        Ok(served?)
    }

    fn send(&mut self, messages: &[Message]) -> Result<(), Unreachable> {
        if self.greeted {
            return messages.iter().try_for_each(|message| self.client.send(message));
        }
        // The agent looks at this process once, before it greets.
        let inspection = Inspection::begin();
        let greeted = self.client.ask_all(messages).and_then(|()| self.client.greeted());
        drop(inspection);
        self.greeted = greeted.is_ok();
        greeted
    }
}

fn answered(message: Message) -> Result<Served, Failure> {
    match message {
        Message::Served(served) => Ok(served),
        Message::Direct(why) => Err(format!("the agent does not serve this process: {why}").into()),
        _ => Err("the agent speaks another protocol".into()),
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

fn unexpected(served: Served) -> Failure {
    match served {
        Served::Not(why) => format!("the agent keeps no secrets: {why}").into(),
        _ => "the agent gave another answer than was asked for".into(),
    }
}
