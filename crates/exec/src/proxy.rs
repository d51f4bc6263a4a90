//! Asks the agent for the client certificate of a proxy.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use keyward_agent::{Client, Unreachable};
use keyward_protocol::agent::{Message, ProxyRequest};

use crate::{print, tell, var, warm::with_agent};

/// How long a proxy may take to start; the agent gives up sooner.
const LONGEST: Duration = Duration::from_secs(60);

/// Prints the certificate, or fails with one line that says why there is none.
pub(crate) fn run(service: &OsString, context: &OsString) -> Result<ExitCode, String> {
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let (service, context) = (text(service), text(context));
    if keyward_agent::is_off(var) {
        return Err(format!(
            "the proxy needs the agent, which is off here (`CI` or `KEYWARD_AGENT` is set); run \
             `keyward proxy -- COMMAND` instead, for context `{context}`"
        ));
    }
    let question = Message::Proxy(ProxyRequest::Certificate { service, context });
    with_agent(|client| ask(client, &question))?
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
