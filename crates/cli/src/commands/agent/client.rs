//! Connects commands to the agent.

use std::time::Duration;

use keyward_agent::{Address, Client, Unreachable};
use keyward_process::harden;
use keyward_protocol::agent::{Admin, Message, Served};

use crate::{failure::Failure, globals::Globals};

/// How long a command waits for an answer that needs no plugin.
const SOON: Duration = Duration::from_secs(5);

/// The agent's answer; `None` if no agent is running.
pub(super) fn admin(globals: &Globals, admin: &Admin) -> Result<Option<Served>, Failure> {
    let address = address(globals)?;
    let mut client = match connect(&address) {
        Ok(client) => client,
        Err(Unreachable::Absent) => return Ok(None),
        Err(error) => return Err(Failure::failed(error.to_string())),
    };
    let asked = client.ask(&Message::Admin(admin.clone())).and_then(|()| client.receive(SOON));
    harden::keep_memory_private();
    match asked {
        Ok(Message::Served(served)) => Ok(Some(served)),
        Ok(Message::Direct(why)) => {
            Err(Failure::failed(format!("the agent does not serve this process: {why}")))
        }
        Ok(_) => Err(Failure::failed("the agent sent an unexpected answer")),
        Err(error) => Err(Failure::failed(error.to_string())
            .hint("`kill` the process that listens on its socket")),
    }
}

pub(super) fn address(globals: &Globals) -> Result<Address, Failure> {
    Address::find(|name| globals.surroundings.var(name))
        .map_err(|error| Failure::failed(error.to_string()))
}

/// Connects. The agent has to read this process's namespaces, which it cannot do while our memory
/// is private; there is nothing secret in it yet. The caller makes it private again.
pub(super) fn connect(address: &Address) -> Result<Client, Unreachable> {
    harden::allow_inspection();
    Client::connect(&address.socket)
}
