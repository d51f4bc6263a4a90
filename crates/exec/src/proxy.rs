//! Asks the agent for the client certificate of a proxy.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use keyward_agent::{Address, Client, Unreachable, connect_or_start};
use keyward_protocol::agent::{Message, ProxyRequest};

use crate::{direct, print, tell, var};

/// How often to look for another agent after one went away.
const ATTEMPTS: usize = 4;
/// How long a proxy may take to start; the agent gives up sooner.
const LONGEST: Duration = Duration::from_secs(60);

/// Prints the certificate, or one line that says why there is none.
pub(crate) fn run(service: &OsString, context: &OsString) -> ExitCode {
    match certificate(service, context) {
        Ok(code) => code,
        Err(why) => {
            tell(&why);
            ExitCode::FAILURE
        }
    }
}

fn certificate(service: &OsString, context: &OsString) -> Result<ExitCode, String> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let (service, context) = (text(service), text(context));
    if keyward_agent::is_off(var) {
        return Err(format!(
            "the proxy needs the agent, which is off here (`CI` or `KEYWARD_AGENT` is set); run \
             `keyward proxy -- COMMAND` instead, for context `{context}`"
        ));
    }
    let address = Address::find(var).map_err(|error| error.to_string())?;
    let question = Message::Proxy(ProxyRequest::Certificate { service, context });
    for _ in 0..ATTEMPTS {
        let connected = match Client::connect(&address.socket) {
            Err(Unreachable::Absent) => {
                let keyward = direct::keyward().ok_or(
                    "no agent is running, and `keyward` is neither next to this program nor on `PATH`",
                )?;
                connect_or_start(&address, &keyward, var)
            }
            connected => connected,
        };
        match connected.and_then(|mut client| ask(&mut client, &question)) {
            // The agent died or was replaced; the next one knows, or will hear from the proxy.
            Err(Unreachable::Gone) => {}
            Err(error) => return Err(format!("{error}; see `keyward agent status`")),
            Ok(answer) => return answer,
        }
    }
    Err("the agent went away; try again".to_owned())
}

fn ask(client: &mut Client, question: &Message) -> Result<Result<ExitCode, String>, Unreachable> {
    client.ask(question)?;
    loop {
        return Ok(match client.receive(LONGEST)? {
            Message::Answer(answer) => Ok(print(answer.stdout.expose_bytes())),
            Message::Failure(failure) => Err(failure.text),
            Message::Direct(why) => Err(format!("the agent does not serve this process: {why}")),
            Message::Note(text) => {
                tell(&text);
                continue;
            }
            _ => return Err(Unreachable::Version),
        });
    }
}
