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
    runner::{self, Cancel, Invocation, Output, Status, Stderr, Stdin},
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

/// How a run under a lease ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; `None` if the plugin did not start or did not end in time.
    pub code: Option<i32>,
    /// What the plugin printed.
    pub stdout: Secret,
    /// The end of its stderr, where nobody has seen it.
    pub stderr: Secret,
    /// Why the plugin did not start or did not end.
    pub fault: Option<String>,
}

/// Asks the agent. `note` is called with messages for the user while the answer takes long.
///
/// If the agent grants a lease, the plugin runs here: as a child of this process, with the
/// environment of the question and, if a person attends, the terminal. With an answer or a lease,
/// this process starts to keep its memory private.
pub fn obtain(
    client: &mut Client,
    question: &Message,
    note: impl FnMut(&str),
) -> Result<Obtained, Unreachable> {
    let Message::Ask(ask) = question else { return Err(Unreachable::Version) };
    client.ask(question)?;
    // Not sooner: the agent has to identify this process first. And not for a run without the agent, which
    // inherits the limit of core files.
    let obtained = obtain_by(client, LONGEST, note, |lease| {
        harden::keep_memory_private();
        run_here(lease, ask)
    })?;
    if matches!(obtained, Obtained::Answer(_)) {
        harden::keep_memory_private();
    }
    Ok(obtained)
}

/// Takes what the agent says to a question that was asked, for at most `limit` at a time. `run` runs
/// the plugin if the agent wants that.
pub fn obtain_by(
    client: &mut Client,
    limit: Duration,
    mut note: impl FnMut(&str),
    run: impl FnOnce(&Lease) -> Ran,
) -> Result<Obtained, Unreachable> {
    loop {
        return Ok(match client.receive(limit)? {
            Message::Answer(answer) => Obtained::Answer(answer),
            Message::Failure(failure) => Obtained::Failure(failure),
            Message::Note(text) => {
                note(&text);
                continue;
            }
            Message::Lease(lease) => deliver(client, lease.id, run(&lease)),
            Message::Direct(why) => Obtained::Direct(why),
            _ => return Err(Unreachable::Version),
        });
    }
}

/// Tells the agent how the run ended, and takes what everybody gets.
fn deliver(client: &mut Client, id: u64, ran: Ran) -> Obtained {
    let Ran { code, stdout, stderr, fault } = ran;
    let done = Done { id, code, stdout: stdout.clone(), stderr };
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

/// Runs the plugin of a lease as a child of this process.
pub fn run_here(lease: &Lease, ask: &Ask) -> Ran {
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
    let ran = Ran::of(&runner::run(&invocation, &Cancel::default()));
    if ran.code == Some(0) {
        let _ = std::io::stderr().write_all(ran.stderr.expose_bytes());
    }
    ran
}

impl Ran {
    /// What came of a run.
    pub fn of(result: &Result<Output, runner::Failure>) -> Self {
        match result {
            Ok(output) => {
                let code = match output.status {
                    Status::Code(code) => code,
                    Status::Signal(signal) => 128 + signal,
                };
                let text = |bytes: &[u8]| Secret::from_bytes(bytes.to_vec());
                let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
                Self { code: Some(code), stdout, stderr, fault: None }
            }
            Err(failure) => {
                let (stdout, stderr) = (Secret::default(), Secret::default());
                Self { code: None, stdout, stderr, fault: Some(failure.to_string()) }
            }
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
