//! `keyward login` and `keyward logout`.

use std::{io::IsTerminal as _, os::unix::ffi::OsStrExt as _};

use keyward_agent::{Obtained, obtain, terminal, until_answered};
use keyward_host::kubeconfig::Exec;
use keyward_process::harden;
use keyward_protocol::{
    agent::{Admin, Ask, Message, Served},
    exec::{REQUEST_VARIABLE, Request},
};

use super::client::{self, Whose};
use crate::{
    commands::proxy,
    failure::{Code, Failure},
    globals::Globals,
    output,
};

/// Log in now, for all processes of this user
///
/// Runs the credential plugin of the context in this terminal and gives its credential to the
/// agent. Everything that waits for this login continues.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The current context.
  keyward login

  # Another one.
  keyward login --context prod")]
pub(crate) struct LoginArgs {}

/// Make the agent forget credentials
///
/// Background requests do not log in again until you run `keyward login` or a command in a
/// terminal. Credentials that were already issued stay valid until they expire; their expiry is
/// printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The current context.
  keyward logout

  # Everything that the agent keeps.
  keyward logout --all")]
pub(crate) struct LogoutArgs {
    /// Forget the credentials of every context
    #[arg(long)]
    all: bool,
}

pub(crate) fn log_in(globals: &Globals) -> Result<(), Failure> {
    let target = globals.target()?;
    let plan = globals.plan(target)?;
    let Some(plugin) = plan.plugin() else {
        return Err(Failure::failed("the user of this context has no credential plugin")
            .hint("`keyward plan` shows how the user authenticates"));
    };
    if !std::io::stdin().is_terminal() {
        let what = "a login needs a terminal on standard input";
        return Err(Failure::new(Code::NeedsTerminal, what));
    }
    let request = plugin.request.clone().unwrap_or(Request::new(plugin.version()));
    let question = Message::Ask(question(globals, plugin.exec(), request));
    let start = client::starter(globals)?;
    let obtained = until_answered(|| {
        let mut agent = start()?;
        let obtained = obtain(&mut agent, &question, |note| output::tell(&format!("{note}\n")));
        harden::keep_memory_private();
        obtained
    });
    match obtained? {
        Obtained::Answer(_) => Ok(()),
        Obtained::Failure(failure) if failure.code == Code::NeedsTerminal as u8 => {
            Err(Failure::new(Code::NeedsTerminal, failure.text))
        }
        Obtained::Failure(failure) => Err(Failure::failed(failure.text)),
        Obtained::Direct(why) => {
            Err(Failure::failed(format!("the agent does not serve this process: {why}")))
        }
        _ => Err(Failure::failed("the agent sent an unexpected answer")),
    }
}

/// The question that kubectl would ask through `keyward-exec`, so that both share one credential.
pub(crate) fn question(globals: &Globals, exec: &Exec, request: Request) -> Ask {
    let mut environment: Vec<_> = globals
        .surroundings
        .vars()
        .into_iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    let mut set = |name: &str, value: &str| {
        environment.retain(|(known, _)| known != name.as_bytes());
        environment.push((name.into(), value.into()));
    };
    for (name, value) in &exec.env {
        set(name, value.expose());
    }
    set(REQUEST_VARIABLE, &Request { interactive: true, ..request }.to_json());
    let directory = globals.surroundings.cwd().unwrap_or_default();
    Ask {
        command: exec.command.clone().into_bytes(),
        args: exec.args.iter().map(|arg| arg.clone().into_bytes()).collect(),
        environment,
        directory: directory.as_os_str().as_bytes().to_vec(),
        terminal: terminal().unwrap_or_default(),
        login: true,
        ..Ask::default()
    }
}

pub(crate) fn log_out(args: &LogoutArgs, globals: &Globals) -> Result<(), Failure> {
    let name = if args.all { None } else { Some(context(globals)?) };
    match client::admin(Whose::User, globals, &Admin::Forget(name.clone()))? {
        None => {
            output::tell(if proxy::end_without_agent(None, globals)? {
                "no agent is running; background proxies that had lost it were stopped\n"
            } else {
                "no agent is running, so there is nothing to forget\n"
            });
            Ok(())
        }
        Some(Served::Done(said)) => output::print(said.expose()),
        Some(Served::Absent) => Err(Failure::failed(format!(
            "the agent has no credentials for context `{}`",
            output::inline(&name.unwrap_or_default())
        ))
        .hint("`keyward agent status` shows what it keeps; `--all` forgets everything")),
        Some(_) => Err(Failure::failed("the agent sent an unexpected answer")),
    }
}

fn context(globals: &Globals) -> Result<String, Failure> {
    match globals.flags.context.last().or(globals.flags.user.as_ref()) {
        Some(name) => Ok(name.clone()),
        None => Ok(globals.target()?.context),
    }
}
