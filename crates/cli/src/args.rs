//! The command line: global flags, then a command.

use clap::Parser;

use crate::{commands::Command, flags::Flags};

/// External credentials for Kubernetes: see what would run, run it, use it.
///
/// Keyward reads the same kubeconfig files as kubectl, finds the credential plugin of a user, and
/// runs it with a time limit, a policy and a clear message when something is wrong.
#[derive(Debug, Parser)]
#[command(
    name = "keyward",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = true,
    after_long_help = EXAMPLES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Flags,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  # What would run for the current context, and why? Runs nothing.
  keyward plan

  # The same for another context, for a script.
  keyward plan --context prod -o json

  # Run the plugin and print what it gives, at most 30 seconds long.
  keyward credential --context prod --plugin-timeout 30s

Exit codes:
  0  done
  1  failed
  2  wrong use
  3  a plugin needs a terminal and there is none
  4  not allowed by the plugin policy or the state of the plugin's file";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every line of an `Examples:` block that starts with `keyward` must be a command line that
    /// the program takes.
    #[test]
    fn every_example_of_the_help_is_accepted() {
        let mut seen = 0;
        let mut commands = vec![Cli::command()];
        while let Some(mut command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let help = command.render_long_help().to_string();
            let examples = help.lines().map(str::trim).filter(|l| l.starts_with("keyward "));
            for example in examples {
                // A pipe, a redirection and quotes belong to the shell.
                let words = example
                    .split_whitespace()
                    .take_while(|w| !matches!(*w, "|" | ">" | "#"))
                    .map(|w| w.trim_matches('\''));
                if let Err(wrong) = Cli::try_parse_from(words) {
                    panic!("`{example}` of `{}` is refused: {wrong}", command.get_name());
                }
                seen += 1;
            }
        }
        assert!(seen >= 5, "only {seen} examples were found");
    }
}
