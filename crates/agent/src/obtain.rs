//! Asks the agent for a credential, and runs the plugin on behalf of all waiting processes if the
//! agent asks for that.

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    time::Duration,
};

use keyward_process::{
    harden,
    runner::{self, Cancel, Invocation, Status, Stderr, Stdin},
};
use keyward_protocol::{
    Secret,
    agent::{Answer, Ask, Done, Failure, Lease, Message},
};

use crate::{Client, Unreachable};

/// Covers the longest login of a person elsewhere.
const LONGEST: Duration = Duration::from_secs(620);
/// How long the agent may take to process the plugin's output.
const READ: Duration = Duration::from_secs(10);

/// The result of asking the agent.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obtained {
    /// What the plugin would have printed.
    Answer(Answer),
    /// The plugin failed, or needs a person.
    Failure(Failure),
    /// The agent does not serve this process, for this reason. The plugin has to run without it.
    Direct(String),
}

/// Asks the agent. `note` is called with messages for the user while the answer takes long.
///
/// If the agent grants a lease, the plugin runs here: as a child of this process, with the
/// environment of the question and, if a person attends, the terminal.
pub fn obtain(
    client: &mut Client,
    question: &Message,
    mut note: impl FnMut(&str),
) -> Result<Obtained, Unreachable> {
    client.ask(question)?;
    loop {
        return Ok(match client.receive(LONGEST)? {
            Message::Answer(answer) => {
                // Not sooner: the agent has to identify this process first.
                harden::keep_memory_private();
                Obtained::Answer(answer)
            }
            Message::Failure(failure) => Obtained::Failure(failure),
            Message::Note(text) => {
                note(&text);
                continue;
            }
            Message::Lease(lease) => match question {
                Message::Ask(ask) => run(client, &lease, ask),
                _ => return Err(Unreachable::Version),
            },
            Message::Direct(why) => Obtained::Direct(why),
            _ => return Err(Unreachable::Version),
        });
    }
}

/// Runs the plugin, reports to the agent, and returns the answer that everybody gets.
fn run(client: &mut Client, lease: &Lease, ask: &Ask) -> Obtained {
    // Not sooner: the agent has to identify this process first.
    harden::keep_memory_private();
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let mut invocation = Invocation::new(OsStr::from_bytes(&lease.program));
    invocation.name = text(&ask.command);
    invocation.args = ask.args.iter().map(|arg| text(arg)).collect();
    invocation.env =
        ask.environment.iter().map(|(name, value)| (text(name), text(value))).collect();
    invocation.stdin = if lease.attended { Stdin::Terminal } else { Stdin::Closed };
    // A person sees stderr at once; without one, everybody who waits sees why the run failed.
    invocation.stderr = if lease.attended { Stderr::Shown } else { Stderr::Kept };
    invocation.budget = Duration::from_millis(lease.budget);
    invocation.attended = lease.attended;
    let (code, stdout, stderr, fault) = match runner::run(&invocation, &Cancel::default()) {
        Ok(output) => {
            let code = match output.status {
                Status::Code(code) => code,
                Status::Signal(signal) => 128 + signal,
            };
            let text = |bytes: &[u8]| Secret::from_bytes(bytes.to_vec());
            (Some(code), text(&output.stdout), text(&output.stderr), None)
        }
        Err(failure) => (None, Secret::default(), Secret::default(), Some(failure.to_string())),
    };
    if code == Some(0) {
        let _ = std::io::stderr().write_all(stderr.expose_bytes());
    }
    let done = Done { id: lease.id, code, stdout: stdout.clone(), stderr };
    match client.send(&Message::Done(done)).and_then(|()| client.receive(READ)) {
        Ok(Message::Answer(answer)) => Obtained::Answer(answer),
        Ok(Message::Failure(mut failure)) => {
            if let Some(fault) = fault {
                failure.text = format!("{}: {fault}", failure.text);
            }
            Obtained::Failure(failure)
        }
        // The agent died meanwhile, but the plugin's output is still good.
        _ if code == Some(0) => Obtained::Answer(Answer { stdout, serial: 0 }),
        _ => {
            let text = fault.unwrap_or_else(|| "the plugin failed".into());
            Obtained::Failure(Failure { code: 1, text, retry: 0 })
        }
    }
}

/// The terminal on stdin, if it is this process's controlling terminal: only there can a plugin
/// prompt.
pub fn terminal() -> Option<Vec<u8>> {
    use rustix::fs::{Mode, OFlags};
    let stdin = rustix::stdio::stdin();
    if !rustix::termios::isatty(stdin) {
        return None;
    }
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).ok()?;
    Some(rustix::termios::ttyname(stdin, Vec::new()).ok()?.into_bytes())
}
