//! Shares plugin runs and logins with `kubectl` and other programs, through Keyward's agent.
//!
//! ```no_run
//! use keyward::{Client, agent::Agent};
//!
//! # fn main() -> Result<(), keyward::Error> {
//! let (client, target) = Client::builder().agent(Agent::shared()).for_context(None)?;
//! # Ok(())
//! # }
//! ```
//!
//! The agent is asked instead of running an exec plugin, on the thread that would run it. What it has is
//! used; where it has nothing, it runs the plugin itself or lets this process run it for everybody who
//! waits. A credential that a server rejects is reported with the next question. If there is no agent,
//! if it is stuck or does not serve this process, the plugin runs as it would without.
//!
//! The agent is not asked if `CI` is set, or with `KEYWARD_AGENT=off`. It exists on Linux only.

use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use keyward_host::{Broker, BrokerQuestion, Brokered};
use keyward_process::runner::{Failure, Output};

/// The agent of this user, as a program asks it.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    program: Option<PathBuf>,
    inspection: bool,
}

impl Agent {
    /// The agent that is running, if one is. It is never started.
    pub fn new() -> Self {
        Self::default()
    }

    /// One [`Agent::new`] for the process: clients with equal settings share their credentials, and
    /// the agent is one of the settings.
    pub fn shared() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Agent>> = LazyLock::new(Arc::default);
        Arc::clone(&SHARED)
    }

    /// Starts the agent where none is running, for kubeconfigs that `keyward wrap` has changed: whoever
    /// wrapped them wants the agent. `program` is the path of `keyward`.
    #[must_use]
    pub fn start_with(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Lets the agent look at this process for a moment, though it keeps its memory private
    /// ([`keyward_process::harden`]). Without, the agent does not serve such a process: it cannot tell
    /// it from one in a container.
    #[must_use]
    pub fn allow_inspection(mut self) -> Self {
        self.inspection = true;
        self
    }
}

impl Broker for Agent {
    fn obtain(
        &self,
        question: &BrokerQuestion<'_>,
        run: &mut dyn FnMut() -> Result<Output, Failure>,
    ) -> Brokered {
        #[cfg(target_os = "linux")]
        return linux::obtain(self, question, run);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (question, run);
            Brokered::Direct
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, time::Duration};

    use keyward_agent::{
        Address, Client, Obtained, Ran, Unreachable, connect_or_start, is_off, obtain_by, terminal,
        until_answered,
    };
    use keyward_host::{BrokerHandle, BrokerQuestion, Brokered, Error, Kind};
    use keyward_process::{
        harden::Inspection,
        runner::{Failure, Output, Status},
    };
    use keyward_protocol::agent::{self, Ask, Message, Rejected};

    use super::Agent;

    /// What the agent's exit codes mean.
    const LOGIN: u8 = 3;
    const NOT_ALLOWED: u8 = 4;

    pub(super) fn obtain(
        agent: &Agent,
        question: &BrokerQuestion<'_>,
        run: &mut dyn FnMut() -> Result<Output, Failure>,
    ) -> Brokered {
        let var = |name: &str| question.surroundings.var(name);
        let Ok(address) = Address::find(var) else { return Brokered::Direct };
        if is_off(var) {
            return Brokered::Direct;
        }
        match until_answered(|| talk(agent, &address, question, run)) {
            Ok(brokered) => brokered,
            Err(Unreachable::Late) => {
                let what = format!(
                    "plugin `{}`, which another process runs, did not end within {} s",
                    question.command,
                    question.budget.as_secs()
                );
                Brokered::Failed(Error::new(Kind::TimedOut, what))
            }
            Err(error) => {
                tracing::debug!(%error, "no agent is asked");
                Brokered::Direct
            }
        }
    }

    fn talk(
        agent: &Agent,
        address: &Address,
        question: &BrokerQuestion<'_>,
        run: &mut dyn FnMut() -> Result<Output, Failure>,
    ) -> Result<Brokered, Unreachable> {
        let inspection = agent.inspection.then(Inspection::begin);
        let mut client = match (Client::connect(&address.socket), &agent.program) {
            (Err(Unreachable::Absent), Some(program)) if question.wrapped => {
                connect_or_start(address, program, |name| question.surroundings.var(name))?
            }
            (connected, _) => connected?,
        };
        let process = client.process();
        client.ask(&Message::Ask(ask(question, process)))?;
        client.greeted()?;
        drop(inspection);
        let mut ran = None;
        let obtained =
            obtain_by(&mut client, question.budget, question.note, |_| Ran::of(ran.insert(run())))?;
        let handle = |serial| BrokerHandle { process, serial };
        Ok(match (ran, obtained) {
            (Some(result), Obtained::Answer(answer)) => {
                Brokered::Ran(result, Some(handle(answer.serial)))
            }
            (Some(result), _) => Brokered::Ran(result, None),
            (None, Obtained::Answer(answer)) => {
                Brokered::Answer(output(&answer), handle(answer.serial))
            }
            (None, Obtained::Failure(failure)) => failed(&failure),
            (None, Obtained::Direct(why)) => {
                tracing::debug!("the agent does not serve this process: {why}");
                Brokered::Direct
            }
            (None, _) => Brokered::Direct,
        })
    }

    /// Everything that the plugin would see, as `keyward-exec` asks it.
    fn ask(question: &BrokerQuestion<'_>, process: i32) -> Ask {
        let bytes = |text: &OsStr| text.as_bytes().to_vec();
        let variables = question.environment.iter();
        let real = question.surroundings.made_up().is_none();
        let terminal = if question.interactive && real { terminal() } else { None };
        let rejected = question.rejected.filter(|handle| handle.process == process);
        Ask {
            command: question.command.as_bytes().to_vec(),
            args: question.args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            environment: variables.map(|(name, value)| (bytes(name), bytes(value))).collect(),
            directory: question
                .surroundings
                .cwd()
                .map(|path| bytes(path.as_os_str()))
                .unwrap_or_default(),
            terminal: terminal.unwrap_or_default(),
            login: false,
            own: true,
            rejected: rejected.map(|handle| Rejected {
                serial: handle.serial,
                was_accepted: question.was_accepted,
            }),
        }
    }

    fn output(answer: &agent::Answer) -> Output {
        Output {
            status: Status::Code(0),
            stdout: answer.stdout.expose_bytes().to_vec().into(),
            stderr: Vec::new().into(),
            took: Duration::ZERO,
        }
    }

    fn failed(failure: &agent::Failure) -> Brokered {
        match failure.code {
            // Our own policy has allowed it, and it counts for what runs here.
            NOT_ALLOWED => Brokered::Direct,
            // The agent puts what a person has to do last.
            LOGIN => {
                let (rest, last) = failure.text.rsplit_once('\n').unwrap_or(("", &failure.text));
                let report = format!("{last}\n  {}", rest.replace("\n\nhint: ", "\n  "));
                Brokered::Failed(Error::relayed(Kind::NeedsTerminal, report.trim_end()))
            }
            _ => Brokered::Failed(Error::relayed(Kind::Failed, &failure.text)),
        }
    }
}
