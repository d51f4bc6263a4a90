//! `keyward completions`: prints a completion script for a shell.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{args::Cli, failure::Failure, globals::Globals, output};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # For this shell only, with bash: source <(keyward completions bash)
  # For good:
  keyward completions bash > ~/.local/share/bash-completion/completions/keyward
  keyward completions zsh > ~/.zfunc/_keyward
  keyward completions fish > ~/.config/fish/completions/keyward.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Writes the script to stdout.
pub(crate) fn run(args: &Args, _globals: &Globals) -> Result<ExitCode, Failure> {
    let mut command = Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "keyward", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
