//! Asks the agent for a credential, and runs the plugin for everybody where the agent says so.

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

/// However long a person takes to log in elsewhere.
const LONGEST: Duration = Duration::from_secs(620);
/// How long the agent may take to read what the plugin printed.
const READ: Duration = Duration::from_secs(10);

/// What asking has brought.
#[derive(Debug)]
#[non_exhaustive]
pub enum Obtained {
    /// What the plugin would have printed.
    Answer(Answer),
    /// The plugin failed, or needs a person.
    Failure(Failure),
    /// The agent does not serve this process, and why. The plugin has to run without it.
    Direct(String),
}

/// Asks. `note` is told what a person should know while it takes long.
///
/// With a lease of the agent, the plugin runs here: a child of this process, with the environment of
/// the question and, if a person attends, the terminal.
pub fn obtain(
    client: &mut Client,
    question: &Message,
    mut note: impl FnMut(&str),
) -> Result<Obtained, Unreachable> {
    client.ask(question)?;
    loop {
        return Ok(match client.receive(LONGEST)? {
            Message::Answer(answer) => {
                // Not sooner: the agent has to see who we are first.
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

/// Runs the plugin, tells the agent, and takes what everybody gets.
fn run(client: &mut Client, lease: &Lease, ask: &Ask) -> Obtained {
    // Only now: the agent has to see who we are first.
    harden::keep_memory_private();
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let mut invocation = Invocation::new(OsStr::from_bytes(&lease.program));
    invocation.name = text(&ask.command);
    invocation.args = ask.args.iter().map(|arg| text(arg)).collect();
    invocation.env =
        ask.environment.iter().map(|(name, value)| (text(name), text(value))).collect();
    invocation.stdin = if lease.attended { Stdin::Terminal } else { Stdin::Closed };
    // A person sees it at once; of a run without one, everybody who waits sees why it failed.
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
        // The agent died meanwhile. What the plugin printed is as good as ever.
        _ if code == Some(0) => Obtained::Answer(Answer { stdout, serial: 0 }),
        _ => {
            let text = fault.unwrap_or_else(|| "the plugin failed".into());
            Obtained::Failure(Failure { code: 1, text, retry: 0 })
        }
    }
}

/// The terminal on stdin, if it is the one that controls this process: only there a plugin can ask a
/// person.
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
