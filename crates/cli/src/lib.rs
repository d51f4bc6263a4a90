//! The program `keyward`: explains, gets and uses Kubernetes credentials from plugins.
//!
//! Each command is one file of `commands/` with its own `Args` and `run`. Only this crate prints:
//! data to stdout, everything for people to stderr.
//!
//! This is a library so that the bridges of [`Bridge`] can be separate programs, and so that man pages
//! can be made from [`command`]; it has no other users.

#[cfg(target_os = "linux")]
mod allocator;
mod args;
mod bridge;
mod commands;
mod exec_request;
mod failure;
mod flags;
mod globals;
mod listen;
mod log;
mod log_limit;
mod loop_guard;
mod output;
mod plugin_stderr;
mod progress;
mod server;
mod signals;
mod trusted;
mod waiting;

use std::{env, path::Path, process::ExitCode, time::Duration};

use clap::CommandFactory as _;
use keyward_process::{harden, runner};
use keyward_protocol::duration;

use crate::{args::Cli, commands::completions, failure::Failure, flags::Flags, globals::Globals};

pub use crate::bridge::Bridge;

/// The command line with all its commands and flags, for programs that describe it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// The whole program: a bridge or `keyward-exec` if it was started by the name of one, else what the
/// command line says.
pub fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if env::args_os().next().is_some_and(|name| Path::new(&name).ends_with(keyward_exec::NAME)) {
        // Its memory stays open until the agent has seen who asks.
        return keyward_exec::main();
    }
    let code = run();
    // No plugin that is still running for an abandoned request outlives us.
    runner::shut_down(LAST_BREATH);
    code
}

/// How long plugins may take to die. They are killed, so only the system can be slow.
const LAST_BREATH: Duration = Duration::from_secs(5);

fn run() -> ExitCode {
    harden::keep_memory_private();
    let words: Vec<_> = env::args_os().collect();
    if let Some(bridge) = words.first().and_then(|name| Bridge::named(name)) {
        return bridge.main();
    }
    if words.first().is_some_and(|name| Path::new(name).ends_with(completions::KUBECTL)) {
        return match completions::for_kubectl(&words[1..]) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(&Globals::new(Flags::default())),
        };
    }
    let cli = match Cli::read(&words) {
        Ok(cli) => cli,
        // Help and version are data and go to stdout; a usage error exits with 2, as with clap.
        Err(wrong) => {
            let code = u8::try_from(wrong.exit_code()).unwrap_or(2);
            return match wrong.print() {
                Ok(()) => ExitCode::from(code),
                Err(error) => Failure::from(error).report(&Globals::new(Flags::default())),
            };
        }
    };
    let globals = Globals::new(cli.flags);
    log::start(&globals);
    if let Err(too_few) = harden::require_descriptors() {
        return Failure::from(too_few).report(&globals);
    }
    match cli.command.run(&globals) {
        Ok(code) => code,
        Err(failure) => failure.report(&globals),
    }
}
