//! `keyward agent`: keeps credentials for all processes of this user, and tells what it keeps.

mod background;
mod client;
mod login;
mod run_plugin;
mod status;
mod unit;
mod verify;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::Subcommand;
use keyward_agent::{Address, End, Server, Settings, entry::Entries};
use keyward_process::clock::SystemClock;
use keyward_protocol::agent::{Admin, Served};

pub(crate) use self::{
    login::{LoginArgs, LogoutArgs, log_in, log_out},
    run_plugin::{Args as RunPluginArgs, run as run_plugin},
};
use crate::{failure::Failure, globals::Globals, output, signals};

/// Keep credentials in memory for all processes of this user
///
/// `keyward-exec`, which `keyward wrap` puts into kubeconfigs, starts the agent when it is needed. It
/// ends after ten minutes without anything to keep. Without a subcommand, it runs in the foreground.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # What it keeps, for whom, and until when.
  keyward agent status

  # Forget everything and refuse, as when the screen is locked.
  keyward agent lock

  # Forget everything and end; the next kubectl starts it again.
  keyward agent stop")]
pub(crate) struct Args {
    /// Run in the background; print a byte when listening
    #[arg(long, hide = true)]
    background: bool,

    /// Take the socket of the agent that is running
    #[arg(long, hide = true)]
    take_over: bool,

    /// Do not ask the server about a credential that a client asks for again; the same as
    /// `KEYWARD_AGENT_VERIFY=off`
    #[arg(long)]
    no_verify: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Args),
    /// Forget everything and end
    Stop,
    /// Forget everything, and refuse until `unlock`
    Lock,
    /// Serve again after `lock`
    Unlock,
    InstallUnit(unit::Args),
}

/// Does it.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    match &args.command {
        None => serve(args, globals),
        Some(Command::Status(args)) => status::run(args, globals),
        Some(Command::Stop) => tell(globals, &Admin::Stop),
        Some(Command::Lock) => tell(globals, &Admin::Lock),
        Some(Command::Unlock) => tell(globals, &Admin::Unlock),
        Some(Command::InstallUnit(args)) => unit::run(args, globals),
    }
}

fn tell(globals: &Globals, admin: &Admin) -> Result<ExitCode, Failure> {
    match client::admin(globals, admin)? {
        None if *admin == Admin::Stop => Ok(ExitCode::SUCCESS),
        None => Err(Failure::failed("no agent is running").hint("the next kubectl starts one")),
        Some(Served::Not(why)) => Err(Failure::failed(why)),
        Some(_) => Ok(ExitCode::SUCCESS),
    }
}

/// The agent itself, until it ends.
fn serve(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    if args.background {
        background::detach();
    }
    let surroundings = &globals.surroundings;
    let address = Address::find(|name| surroundings.var(name))
        .map_err(|error| Failure::failed(error.to_string()))?;
    let socket = address.socket.clone();
    let entries = Entries::directory(surroundings)
        .ok_or_else(|| Failure::failed("there is no home for registrations: set `HOME`"))?;
    let mut settings = Settings::new(address, entries, Arc::new(SystemClock));
    let own = std::env::current_exe().ok();
    settings.browser = own.as_deref().and_then(no_browser);
    settings.program = own;
    let off = surroundings.var("KEYWARD_AGENT_VERIFY").is_some_and(|value| value == "off");
    if !args.no_verify && !off {
        settings.verify = Some(Arc::new(verify::Verifier));
    }
    let begun = if args.take_over { Server::take_over(settings) } else { Server::bind(settings) };
    let server = begun.map_err(|error| Failure::failed(error.to_string()))?;
    if args.background {
        background::ready()?;
    } else {
        output::tell(&format!("listening on `{}`\n", socket.display()));
    }
    let stopper = server.stopper();
    signals::on_stop(move || stopper.stop());
    match server.run() {
        Ok(End::Displaced) => {
            Err(Failure::failed(format!("`{}` is another agent's now, or gone", socket.display())))
        }
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::failed(format!("the agent cannot go on: {error}"))),
    }
}

/// What plugins get as their browser when nobody attends them: it opens nothing.
fn no_browser(own: &std::path::Path) -> Option<String> {
    let client: PathBuf = own.parent()?.join("keyward-exec");
    let client = client.to_str().filter(|path| !path.contains(char::is_whitespace))?;
    Some(format!("{client} --no-browser"))
}
