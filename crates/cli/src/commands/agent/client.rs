//! Connects commands to the agent.

use std::time::Duration;

use keyward_agent::{Address, Client, Unreachable};
use keyward_process::harden;
use keyward_protocol::agent::{Admin, Message, Served};

use crate::{failure::Failure, globals::Globals};

/// How long a command waits for an answer that needs no plugin.
const SOON: Duration = Duration::from_secs(5);

/// How long the agent may take to end. It kills its plugins, so only the system can be slow.
const END: Duration = Duration::from_secs(15);

/// The agent's answer; `None` if no agent is running.
pub(super) fn admin(globals: &Globals, admin: &Admin) -> Result<Option<Served>, Failure> {
    match connect_if_running(&address(globals)?)? {
        Some(mut client) => ask(&mut client, admin).map(Some),
        None => Ok(None),
    }
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
    if let Served::Not(why) = ask(&mut client, &Admin::Stop)? {
        return Err(Failure::failed(why));
    }
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
    let asked = client.ask(&Message::Admin(admin.clone())).and_then(|()| client.receive(SOON));
    harden::keep_memory_private();
    match asked {
        Ok(Message::Served(served)) => Ok(served),
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
