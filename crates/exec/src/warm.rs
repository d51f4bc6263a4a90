//! Asks the agent.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    process::ExitCode,
};

use keyward_agent::{
    Address, Client, Obtained, Unreachable, connect_or_start, obtain, terminal, until_answered,
};
use keyward_protocol::agent::{Ask, Message};

use crate::{direct, print, tell, var};

/// The exit code for the agent's answer; `None` if the plugin has to run without the agent.
pub(crate) fn ask(command: &OsStr, args: &[OsString]) -> Option<ExitCode> {
    let question = Message::Ask(question(command, args));
    with_agent(|client| talk(client, &question)).ok()?
}

/// Talks to the agent, which is started if none is running. Fails with a message for people.
pub(crate) fn with_agent<T>(
    mut talk: impl FnMut(&mut Client) -> Result<T, Unreachable>,
) -> Result<T, String> {
    let address = Address::find(var).map_err(|error| error.to_string())?;
    let answer = until_answered(|| {
        let mut client = match Client::connect(&address.socket) {
            Err(Unreachable::Absent) => match direct::keyward() {
                Some(keyward) => connect_or_start(&address, &keyward, var)?,
                None => return Ok(None),
            },
            connected => connected?,
        };
        talk(&mut client).map(Some)
    });
    let answer = answer.map_err(|error| format!("{error}; see `keyward agent status`"))?;
    answer.ok_or_else(|| {
        "no agent is running, and `keyward` is neither next to this program nor on `PATH`"
            .to_owned()
    })
}

fn talk(client: &mut Client, question: &Message) -> Result<Option<ExitCode>, Unreachable> {
    Ok(match obtain(client, question, tell)? {
        Obtained::Answer(answer) => Some(print(answer.stdout.expose_bytes())),
        Obtained::Failure(failure) => {
            tell(&failure.text);
            Some(ExitCode::from(failure.code.max(1)))
        }
        _ => None,
    })
}

/// Everything that the plugin would see.
fn question(command: &OsStr, args: &[OsString]) -> Ask {
    let bytes = |text: &OsStr| text.as_bytes().to_vec();
    Ask {
        command: bytes(command),
        args: args.iter().map(|arg| bytes(arg)).collect(),
        environment: environment(),
        directory: directory(),
        terminal: terminal().unwrap_or_default(),
        login: false,
        ..Ask::default()
    }
}

/// The environment. For a name that is set twice, the first value counts, as it does for programs.
#[expect(clippy::disallowed_methods, reason = "this program is too small for made-up surroundings")]
fn environment() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(64);
    for (name, value) in env::vars_os() {
        if !seen.iter().any(|(known, _)| known == name.as_bytes()) {
            seen.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
    }
    seen
}

#[expect(clippy::disallowed_methods, reason = "this program is too small for made-up surroundings")]
fn directory() -> Vec<u8> {
    env::current_dir().map(|path| path.as_os_str().as_bytes().to_vec()).unwrap_or_default()
}
