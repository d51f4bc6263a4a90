//! `keyward completions`: prints a completion script for a shell.
//!
//! The scripts are small: they pass the words of the command line to `keyward __complete`, which knows
//! all commands, flags and values, and the names in the kubeconfig.

mod complete;
pub(crate) mod names;

use clap::ValueEnum;

pub(crate) use self::complete::{Args as CompleteArgs, KUBECTL, for_kubectl, run as complete};
use crate::{failure::Failure, flags, output};

/// Print a completion script for a shell
///
/// The script completes commands, flags, paths, and the names of contexts, clusters and users.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # For this shell only, with bash: source <(keyward completions bash)
  # For good:
  keyward completions bash > ~/.local/share/bash-completion/completions/keyward
  keyward completions zsh > ~/.zfunc/_keyward
  keyward completions fish > ~/.config/fish/completions/keyward.fish

  # For `kubectl keyward`, next to keyward: ln -s keyward kubectl_complete-keyward")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// The shells that there is a script for.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("keyward.bash"),
            Self::Elvish => include_str!("keyward.elv"),
            Self::Fish => include_str!("keyward.fish"),
            Self::Powershell => include_str!("keyward.ps1"),
            Self::Zsh => include_str!("keyward.zsh"),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    output::print(args.shell.script())
}
