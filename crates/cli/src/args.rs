//! The command line: global flags, then a command.

use std::{ffi::OsString, path::Path};

use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, error::ErrorKind};

use crate::{
    commands::{self, Command},
    flags::Flags,
};

/// Runs Kubernetes credential plugins once and shares the result.
///
/// Keyward reads the same kubeconfig files as kubectl, finds the credential plugin of a user, and
/// runs it with a time limit, a policy and clear errors.
#[derive(Debug, Parser)]
#[command(
    name = "keyward",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    subcommand_required = true,
    after_long_help = EXAMPLES
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) flags: Flags,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the command line, including the program's name.
    ///
    /// Building every command with all its flags takes longer than most commands run. So only those
    /// commands are built whose names occur among the words. If that parses, the whole tree would
    /// parse it the same way; if not, the whole tree is used, for its better error message.
    pub(crate) fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        match Self::read_with_few(words) {
            Err(wrong) if wrong.kind() != ErrorKind::DisplayVersion => Self::read_with_all(words),
            read => read,
        }
    }

    fn read_with_all(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut all = Self::command();
        if words.first().is_some_and(|name| Path::new(name).ends_with(KUBECTL_PLUGIN)) {
            all = all.bin_name("kubectl keyward");
        }
        Self::from_arg_matches(&all.try_get_matches_from(words)?)
    }

    fn read_with_few(words: &[OsString]) -> Result<Self, clap::Error> {
        let top = clap::Command::new("keyward")
            .version(env!("CARGO_PKG_VERSION"))
            .subcommand_required(true)
            .disable_help_subcommand(true);
        let few = match words {
            // Needs no flags, and is asked for by scripts.
            [_, word] if word == "--version" => top,
            _ => Flags::augment_args(top).subcommands(commands::among(words)),
        };
        Self::from_arg_matches(&few.try_get_matches_from(words)?)
    }
}

/// The name under which kubectl finds this program as its command `kubectl keyward`.
const KUBECTL_PLUGIN: &str = "kubectl-keyward";

const EXAMPLES: &str = "\
Examples:
  # Show the plugin of the current context, its path, its policy and its input; run nothing.
  keyward plan

  # For another context, as JSON.
  keyward plan --context prod -o json

  # Run the plugin for at most 30 seconds and print its credential.
  keyward credential --context prod --plugin-timeout 30s

Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    a plugin needs a terminal and there is none, or the agent needs you to log in
  4    not allowed by the plugin policy or the state of the plugin's file
  7    `proxy status`: a proxy is running but does not respond
  126  `proxy -- COMMAND`: the command cannot be run
  127  `proxy -- COMMAND`: the command does not exist
`proxy -- COMMAND` otherwise exits with the exit code of the command.";

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{CommandFactory, Parser};

    use super::Cli;

    /// The parsed flags and arguments, or the error message.
    fn told(read: Result<Cli, clap::Error>) -> Result<String, String> {
        match read {
            Ok(cli) => Ok(format!("{cli:?}")),
            Err(wrong) => Err(wrong.to_string()),
        }
    }

    #[test]
    fn a_command_line_is_read_as_if_all_commands_were_built() {
        let lines = [
            "",
            "--version",
            "-V",
            "--help",
            "-h",
            "help",
            "help plan",
            "help image match",
            "help paln",
            "plan",
            "plan --help",
            "plan --version",
            "plan plan",
            "plan get --raw /healthz",
            "paln",
            "--context plan",
            "--context plan plan",
            "--context plan credential -v",
            "--context",
            "credential --user get --api-version v1beta1",
            "credential --api-version v7",
            "get --raw /version --as plan --server=https://localhost",
            "image",
            "image match registry.example/* image",
            "image explain --config plan image",
            "plugin test --image -- plan --help",
            "proxy -- kubectl get plan",
            "proxy status",
            "completions bash",
            "completions fish plan",
            "demo-signer",
        ];
        for line in lines {
            let words: Vec<OsString> =
                ["keyward"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
            assert_eq!(told(Cli::read(&words)), told(Cli::try_parse_from(&words)), "`{line}`");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every line of an `Examples:` block that starts with `keyward` must be a valid command line.
    #[test]
    fn every_example_of_the_help_is_accepted() {
        let mut seen = 0;
        let mut commands = vec![Cli::command()];
        while let Some(mut command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let help = command.render_long_help().to_string();
            let examples = help.lines().map(str::trim).filter(|l| l.starts_with("keyward "));
            for example in examples {
                // Pipes, redirections and quotes belong to the shell.
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
