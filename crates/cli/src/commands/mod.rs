//! The commands, one file each: `Args` says what it takes, `run` does it.

mod completions;
mod credential;
mod get;
mod plan;
mod plugin_test;
mod whoami;

use std::process::ExitCode;

use clap::Subcommand;

use crate::{failure::Failure, globals::Globals, signals};

/// What to do. A new command is a file here, a variant, and a line in [`Command::run`].
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Plan(plan::Args),
    Credential(credential::Args),
    Get(get::Args),
    Whoami(whoami::Args),
    Plugin(plugin_test::Args),
    Completions(completions::Args),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self, globals: &Globals) -> Result<ExitCode, Failure> {
        // Those that run no plugin have nothing to clean up; `plugin` may become another program
        // before it starts any, and says itself when. One that serves until it is told to stop
        // belongs here too: what is watched here reaches no other handler.
        if !matches!(self, Self::Plan(_) | Self::Plugin(_) | Self::Completions(_)) {
            signals::watch();
        }
        match self {
            Self::Plan(args) => plan::run(&args, globals),
            Self::Credential(args) => credential::run(&args, globals),
            Self::Get(args) => get::run(&args, globals),
            Self::Whoami(args) => whoami::run(&args, globals),
            Self::Plugin(args) => plugin_test::run(args, globals),
            Self::Completions(args) => completions::run(&args, globals),
        }
    }
}
