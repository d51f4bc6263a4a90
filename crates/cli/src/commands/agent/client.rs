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

/// How often a request is sent, in case agents hand over to the next one before they have answered.
const ATTEMPTS: u8 = 4;

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
    until_answered(|| ask(connect_if_running(&address)?, admin))
}

/// Stops the agent at `address`, if one is running, and waits until it has ended.
pub(crate) fn stop(address: &Address) -> Result<(), Failure> {
    until_answered(|| {
        let Some(client) = connect_if_running(address)? else { return Ok(Ok(())) };
        let process = match client.agent_process() {
            Ok(process) => process,
            Err(error) => return Ok(Err(error)),
        };
        let pid = client.process();
        if let Err(error) = ask(Some(client), &Admin::Stop)? {
            return Ok(Err(error));
        }
        if process.has_ended(END).map_err(|error| failure(&error))? {
            return Ok(Ok(()));
        }
        let seconds = END.as_secs();
        Err(Failure::failed(format!("the agent (pid {pid}) did not end within {seconds} s"))
            .hint(format!("end it with `kill -9 {pid}`")))
    })
}

/// Makes an attempt again if the agent went away before it had answered: one that is replaced leaves its clients
/// to the next one.
pub(super) fn until_answered<T>(
    mut attempt: impl FnMut() -> Result<Result<T, Unreachable>, Failure>,
) -> Result<T, Failure> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match attempt()? {
            Err(Unreachable::Gone) if left > 0 => {}
            answer => return answer.map_err(|error| failure(&error)),
        }
    }
}

fn failure(error: &Unreachable) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        // Not of one that is late: a login may take long.
        Unreachable::Stuck | Unreachable::Version => {
            failure.hint("`kill` the process that listens on its socket")
        }
        _ => failure,
    }
}

fn connect_if_running(address: &Address) -> Result<Option<Client>, Failure> {
    match connect(address) {
        Ok(client) => Ok(Some(client)),
        Err(Unreachable::Absent) => Ok(None),
        Err(error) => Err(failure(&error)),
    }
}

fn ask(
    client: Option<Client>,
    admin: &Admin,
) -> Result<Result<Option<Served>, Unreachable>, Failure> {
    Ok(match exchange(client, &Message::Admin(admin.clone()), SOON)? {
        Ok(Some(Message::Served(Served::Not(why)))) => return Err(Failure::failed(why)),
        Ok(Some(Message::Served(served))) => Ok(Some(served)),
        Ok(Some(_)) => return Err(Failure::failed("the agent sent an unexpected answer")),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    })
}

/// The agent's answer to a request, which may take as long as `limit`; `None` if no agent is running.
pub(crate) fn ask_if_running(
    globals: &Globals,
    request: &Message,
    limit: Duration,
) -> Result<Option<Message>, Failure> {
    let address = address(Whose::User, globals)?;
    until_answered(|| exchange(connect_if_running(&address)?, request, limit))
}

/// The agent's answer to a request. Starts the agent if none is running.
pub(crate) fn ask_or_start(
    globals: &Globals,
    request: &Message,
    limit: Duration,
) -> Result<Message, Failure> {
    let answer = until_answered(|| exchange(Some(connect_or_start(globals)?), request, limit))?;
    answer.ok_or_else(|| Whose::User.not_running())
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

/// The answer to a request, if there is an agent to answer it.
fn exchange(
    client: Option<Client>,
    request: &Message,
    limit: Duration,
) -> Result<Result<Option<Message>, Unreachable>, Failure> {
    let Some(mut client) = client else { return Ok(Ok(None)) };
    let asked = client.ask(request).and_then(|()| client.receive(limit));
    harden::keep_memory_private();
    match asked {
        Ok(Message::Direct(why)) => {
            Err(Failure::failed(format!("the agent does not serve this process: {why}")))
        }
        asked => Ok(asked.map(Some)),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_agent_that_hands_over_is_followed_by_the_next_one() {
        let mut attempts = 0;
        let answer = until_answered(|| {
            attempts += 1;
            Ok(if attempts < 3 { Err(Unreachable::Gone) } else { Ok(attempts) })
        });
        assert_eq!(answer.unwrap(), 3);
        let failure = until_answered(|| Ok::<Result<(), _>, _>(Err(Unreachable::Gone)));
        assert_eq!(failure.unwrap_err().message(), "the agent went away");
    }
}
