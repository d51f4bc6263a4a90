//! `keyward plan`: what would run for this context, and why. Runs nothing.

use std::process::ExitCode;

use crate::{failure::Failure, globals::Globals, output::Output};

/// Explain which credential would be used and what would run, and run nothing
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The current context.
  keyward plan

  # Another context, the plugin's arguments in the open.
  keyward plan --context prod --show-args

  # For a script.
  keyward plan -o json")]
pub(crate) struct Args {
    /// Show the values of the plugin's arguments, which may be secret
    #[arg(long)]
    show_args: bool,

    #[command(flatten)]
    output: Output,
}

/// Explains the plan on stdout.
pub(crate) fn run(_args: Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let _target = globals.target()?;
    let _rules = globals.rules()?;
    todo!()
}
