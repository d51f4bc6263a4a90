//! `keyward plan`: shows what would run for this context, and why. Runs nothing.

mod arguments;
pub(super) mod explain;
pub(super) mod explanation;
mod text;

use crate::{
    failure::Failure,
    globals::Globals,
    output::{Output, Style},
};

/// Show which credential would be used and what would run, without running anything
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

/// Prints the plan as far as it goes, then the error, if there is one.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let (explanation, failure) = explain::explain(globals, args.show_args);
    let style = Style::of_stdout(globals);
    args.output.print(&explanation, || text::layout(&explanation, style))?;
    failure.map_or(Ok(()), Err)
}
