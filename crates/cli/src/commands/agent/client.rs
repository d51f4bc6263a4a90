//! Connects commands to the agent.

use std::{path::PathBuf, time::Duration};

use keyward_agent::{Address, Client, Unreachable, until_answered};
use keyward_process::harden;
use keyward_protocol::agent::{Admin, Message, Served};

use crate::{failure::Failure, globals::Globals};

/// How long a command waits for an answer that needs no plugin.
const SOON: Duration = Duration::from_secs(5);

/// How long the agent may take to end. It kills its plugins, so only the system can be slow.
const END: Duration = Duration::from_secs(15);

/// The agent that a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The user's own.
    User,
    /// The node's, which serves root.
    Node,
}

impl Whose {
    /// The failure if this agent is not running.
    pub(super) fn not_running(self) -> Failure {
        match self {
            Self::User => Failure::failed("no agent is running")
                .hint("kubectl starts one if the kubeconfig is wrapped; see `keyward wrap --help`"),
            Self::Node => Failure::failed("the node's agent is not running")
                .hint("`keyward agent install-unit --system` lets systemd start it"),
        }
    }
}

/// The agent's answer, unless it refuses; `None` if no agent is running.
pub(super) fn admin(
    whose: Whose,
    globals: &Globals,
    admin: &Admin,
) -> Result<Option<Served>, Failure> {
    let address = address(whose, globals)?;
    let request = Message::Admin(admin.clone());
    ask(&address, &request, SOON)?.map(served).transpose()
}

/// Stops the agent at `address`, if one is running, and waits until it has ended.
pub(crate) fn stop(address: &Address) -> Result<(), Failure> {
    let asked = until_answered(|| {
        let Some(client) = connect_if_running(address)? else { return Ok(None) };
        let (pid, process) = (client.process(), client.agent_process()?);
        let answer = exchange(client, &Message::Admin(Admin::Stop), SOON)?;
        Ok(Some((answer, pid, process)))
    });
    let Some((answer, pid, process)) = asked? else { return Ok(()) };
    served(answer)?;
    if process.has_ended(END)? {
        return Ok(());
    }
    let seconds = END.as_secs();
    Err(Failure::failed(format!("the agent (pid {pid}) did not end within {seconds} s"))
        .hint(format!("end it with `kill -9 {pid}`")))
}

/// The agent's answer to a request, which may take as long as `limit`; `None` if no agent is running.
pub(crate) fn ask_if_running(
    globals: &Globals,
    request: &Message,
    limit: Duration,
) -> Result<Option<Message>, Failure> {
    ask(&address(Whose::User, globals)?, request, limit)
}

/// The agent's answer to a request. Starts the agent if none is running.
pub(crate) fn ask_or_start(
    globals: &Globals,
    request: &Message,
    limit: Duration,
) -> Result<Message, Failure> {
    let start = starter(globals)?;
    not_direct(until_answered(|| exchange(start()?, request, limit))?)
}

/// Connects to the user's agent, and starts it if none is running. After success, the caller makes our
/// memory private again, as after [`connect`].
pub(super) fn starter(
    globals: &Globals,
) -> Result<impl Fn() -> Result<Client, Unreachable>, Failure> {
    let address = address(Whose::User, globals)?;
    let own = own_program()?;
    Ok(move || {
        harden::allow_inspection();
        keyward_agent::connect_or_start(&address, &own, |name| globals.surroundings.var(name))
            .inspect_err(|_| harden::keep_memory_private())
    })
}

fn ask(address: &Address, request: &Message, limit: Duration) -> Result<Option<Message>, Failure> {
    let answer = until_answered(|| match connect_if_running(address)? {
        Some(client) => exchange(client, request, limit).map(Some),
        None => Ok(None),
    });
    answer?.map(not_direct).transpose()
}

/// The answer to a request of an administrator, unless it is a refusal.
fn served(answer: Message) -> Result<Served, Failure> {
    match not_direct(answer)? {
        Message::Served(Served::Not(why)) => Err(Failure::failed(why)),
        Message::Served(served) => Ok(served),
        _ => Err(Failure::failed("the agent sent an unexpected answer")),
    }
}

fn not_direct(answer: Message) -> Result<Message, Failure> {
    match answer {
        Message::Direct(why) => {
            Err(Failure::failed(format!("the agent does not serve this process: {why}")))
        }
        answer => Ok(answer),
    }
}

impl From<Unreachable> for Failure {
    fn from(error: Unreachable) -> Self {
        let failure = Self::failed(error.to_string());
        match error {
            // Not of one that is late: a login may take long.
            Unreachable::Stuck | Unreachable::Version => {
                failure.hint("`kill` the process that listens on its socket")
            }
            _ => failure,
        }
    }
}

/// Sends a request and waits for the answer.
fn exchange(
    mut client: Client,
    request: &Message,
    limit: Duration,
) -> Result<Message, Unreachable> {
    let answer = client.ask(request).and_then(|()| client.receive(limit));
    harden::keep_memory_private();
    answer
}

fn connect_if_running(address: &Address) -> Result<Option<Client>, Unreachable> {
    match connect(address) {
        Err(Unreachable::Absent) => Ok(None),
        connected => connected.map(Some),
    }
}

/// The path of this program.
pub(super) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find the path of this program: {error}")))
}

pub(super) fn address(whose: Whose, globals: &Globals) -> Result<Address, Failure> {
    let var = |name: &str| globals.surroundings.var(name);
    let found = match whose {
        Whose::User => Address::find(var),
        Whose::Node => Address::system(var),
    };
    found.map_err(|error| Failure::failed(error.to_string()))
}

/// Connects. The agent has to read this process's namespaces, which it cannot do while our memory
/// is private; there is nothing secret in it yet. The caller makes it private again.
pub(super) fn connect(address: &Address) -> Result<Client, Unreachable> {
    harden::allow_inspection();
    Client::connect(&address.socket).map(|client| client.with_patience(SOON))
}
