//! Connects commands to the agent.

use std::{path::PathBuf, time::Duration};

use keyward_agent::{Address, Client, Unreachable};
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
    let client = connect_if_running(&address(whose, globals)?)?;
    client.map(|mut client| ask(&mut client, admin)).transpose()
}

/// Stops the agent at `address`, if one is running, and waits until it has ended.
pub(crate) fn stop(address: &Address) -> Result<(), Failure> {
    let Some(mut client) = connect_if_running(address)? else { return Ok(()) };
    let failed = |error: Unreachable| Failure::failed(error.to_string());
    let process = match client.agent_process() {
        Ok(process) => process,
        Err(Unreachable::Gone) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    ask(&mut client, &Admin::Stop)?;
    if process.has_ended(END).map_err(failed)? {
        return Ok(());
    }
    let pid = client.process();
    Err(Failure::failed(format!("the agent (pid {pid}) did not end within {} s", END.as_secs()))
        .hint(format!("end it with `kill -9 {pid}`")))
}

fn connect_if_running(address: &Address) -> Result<Option<Client>, Failure> {
    match connect(address) {
        Ok(client) => Ok(Some(client)),
        Err(Unreachable::Absent) => Ok(None),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

fn ask(client: &mut Client, admin: &Admin) -> Result<Served, Failure> {
    match exchange(client, &Message::Admin(admin.clone()), SOON)? {
        Message::Served(Served::Not(why)) => Err(Failure::failed(why)),
        Message::Served(served) => Ok(served),
        _ => Err(Failure::failed("the agent sent an unexpected answer")),
    }
}

/// The agent's answer to a request, which may take as long as `limit`; `None` if no agent is running.
pub(crate) fn ask_if_running(
    globals: &Globals,
    request: &Message,
    limit: Duration,
) -> Result<Option<Message>, Failure> {
    let client = connect_if_running(&address(Whose::User, globals)?)?;
    client.map(|mut client| exchange(&mut client, request, limit)).transpose()
}

/// The agent's answer to a request. Starts the agent if none is running.
pub(crate) fn ask_or_start(
    globals: &Globals,
    request: &Message,
    limit: Duration,
) -> Result<Message, Failure> {
    exchange(&mut connect_or_start(globals)?, request, limit)
}

/// Connects to the user's agent, and starts it if none is running. After success, the caller makes our
/// memory private again, as after [`connect`].
pub(super) fn connect_or_start(globals: &Globals) -> Result<Client, Failure> {
    let address = address(Whose::User, globals)?;
    let own = own_program()?;
    harden::allow_inspection();
    keyward_agent::connect_or_start(&address, &own, |name| globals.surroundings.var(name)).map_err(
        |error| {
            harden::keep_memory_private();
            Failure::failed(error.to_string())
        },
    )
}

/// The path of this program.
pub(super) fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find the path of this program: {error}")))
}

fn exchange(client: &mut Client, request: &Message, limit: Duration) -> Result<Message, Failure> {
    let asked = client.ask(request).and_then(|()| client.receive(limit));
    harden::keep_memory_private();
    match asked {
        Ok(Message::Direct(why)) => {
            Err(Failure::failed(format!("the agent does not serve this process: {why}")))
        }
        Ok(answer) => Ok(answer),
        Err(error) => Err(Failure::failed(error.to_string())
            .hint("`kill` the process that listens on its socket")),
    }
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
