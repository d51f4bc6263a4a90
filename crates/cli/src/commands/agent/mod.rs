//! `keyward agent`: keeps credentials for all processes of this user, and shows them.

mod client;
mod login;
mod metrics;
mod run_plugin;
mod status;
mod unit;
mod verify;

use std::{os::unix::process::CommandExt as _, path::Path};

use clap::Subcommand;
use keyward_agent::ServeOptions;
use keyward_process::harden;
use keyward_protocol::agent::Admin;

use self::client::Whose;
pub(crate) use self::{
    client::{ask_if_running, ask_or_start, stop},
    login::{LoginArgs, LogoutArgs, log_in, log_out, question},
    run_plugin::{Args as RunPluginArgs, run as run_plugin},
    status::reported_status,
    verify::{Args as VerifyArgs, run as verify_credential},
};
use crate::{commands::proxy, failure::Failure, flags, globals::Globals, output};

/// Keep credentials in memory for all processes of this user
///
/// `keyward-exec`, which `keyward wrap` puts into kubeconfigs, starts the agent when it is needed.
/// The agent exits after ten minutes with nothing to keep. Without a subcommand, it runs in the
/// foreground: as the small program `keyward-agent` if that is installed beside `keyward`.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # What it keeps, for whom, and until when.
  keyward agent status

  # Forget everything and refuse, as when the screen is locked.
  keyward agent lock

  # Forget everything and end; the next kubectl starts it again.
  keyward agent stop

  # The agent of this node, which keeps the logins of keyward-provider-node for root.
  keyward agent status --system")]
#[expect(clippy::struct_excessive_bools, reason = "these are independent flags of a command line")]
pub(crate) struct Args {
    /// Run in the background; print a byte when listening
    #[arg(long, hide = true)]
    background: bool,

    /// Take over the socket of the running agent
    #[arg(long, hide = true)]
    take_over: bool,

    /// Do not check with the server when a client asks for a credential again; same as
    /// `KEYWARD_AGENT_VERIFY=off`
    #[arg(long)]
    no_verify: bool,

    /// The agent of this node instead: it serves root's programs, such as the kubelet's
    /// `keyward-provider-node`, at `/run/keyward/agent.sock`
    #[arg(long, global = true)]
    system: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Args),
    /// Forget everything and exit; returns when the agent has ended
    Stop,
    /// Forget everything, and refuse until `unlock`
    Lock,
    /// Serve again after `lock`
    Unlock,
    Metrics(metrics::Args),
    InstallUnit(unit::Args),
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let whose = if args.system { Whose::Node } else { Whose::User };
    match &args.command {
        None => serve(args, globals),
        Some(Command::Status(status)) => status::run(status, whose, globals),
        Some(Command::Stop) => {
            if whose == Whose::Node {
                // Until the agent has taken the socket, a connection names the service manager as the process to wait for.
                client::admin(whose, globals, &Admin::Status)?;
            }
            client::stop(&client::address(whose, globals)?)?;
            end_proxies(whose, globals)
        }
        Some(Command::Lock) => {
            let told = tell(whose, globals, &Admin::Lock);
            end_proxies(whose, globals)?;
            told
        }
        Some(Command::Unlock) => tell(whose, globals, &Admin::Unlock),
        Some(Command::Metrics(metrics)) => metrics::run(metrics, whose, globals),
        Some(Command::InstallUnit(unit)) => unit::run(unit, whose, globals),
    }
}

/// Ends background proxies that no agent can stop any more: they hold credentials.
fn end_proxies(whose: Whose, globals: &Globals) -> Result<(), Failure> {
    if whose == Whose::User {
        proxy::end_without_agent(None, globals)?;
    }
    Ok(())
}

fn tell(whose: Whose, globals: &Globals, admin: &Admin) -> Result<(), Failure> {
    client::admin(whose, globals, admin)?.map(drop).ok_or_else(|| whose.not_running())
}

/// Runs the agent until it ends: as `keyward-agent` next to this program, which needs less memory; or
/// in this process, if that is not installed or a log is wanted, which `keyward-agent` does not write.
fn serve(args: &Args, globals: &Globals) -> Result<(), Failure> {
    if globals.flags.verbosity() == 0 {
        become_agent(args);
    }
    let options = ServeOptions {
        background: args.background,
        take_over: args.take_over,
        no_verify: args.no_verify,
        system: args.system,
    };
    let listening = |socket: &Path| output::tell(&format!("listening on `{}`\n", socket.display()));
    keyward_agent::serve(options, &globals.surroundings, listening).map_err(Failure::failed)
}

/// Becomes `keyward-agent`; returns only if that fails.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process becomes the program"
)]
fn become_agent(args: &Args) {
    let Ok(own) = std::env::current_exe() else { return };
    let mut command = std::process::Command::new(own.with_file_name("keyward-agent"));
    let flags = [
        (args.background, "--background"),
        (args.take_over, "--take-over"),
        (args.no_verify, "--no-verify"),
        (args.system, "--system"),
    ];
    command.args(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag));
    harden::restore(std::process::id());
    let _ = command.exec();
    harden::keep_memory_private();
}
