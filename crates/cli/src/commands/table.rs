//! The arguments of each command by its name, so that only the requested ones are built.

use std::ffi::OsString;

use clap::{Args as _, Command};

#[cfg(target_os = "linux")]
use super::{agent, grant, node};
use super::{
    completions, credential, demo, doctor, enroll, get, image, man_pages, plan, plugin_test, proxy,
    sign, unwrap, version, whoami, wrap,
};

/// The commands whose names occur among these words.
pub(crate) fn among(words: &[OsString]) -> impl Iterator<Item = Command> {
    let named = TABLE.iter().filter(|(name, _)| words.iter().any(|word| word == name));
    named.map(|(name, augment)| augment(Command::new(name)))
}

/// Adds a command's arguments.
type Augment = fn(Command) -> Command;

/// Must have the same names as the variants of [`super::Command`]; a test compares them.
const TABLE: &[(&str, Augment)] = &[
    ("plan", plan::Args::augment_args),
    ("credential", credential::Args::augment_args),
    ("get", get::Args::augment_args),
    ("whoami", whoami::Args::augment_args),
    ("doctor", doctor::Args::augment_args),
    ("enroll", enroll::Args::augment_args),
    #[cfg(target_os = "linux")]
    ("login", agent::LoginArgs::augment_args),
    #[cfg(target_os = "linux")]
    ("logout", agent::LogoutArgs::augment_args),
    #[cfg(target_os = "linux")]
    ("agent", agent::Args::augment_args),
    #[cfg(target_os = "linux")]
    ("run-plugin", agent::RunPluginArgs::augment_args),
    #[cfg(target_os = "linux")]
    ("verify-credential", agent::VerifyArgs::augment_args),
    ("sign", sign::Args::augment_args),
    ("wrap", wrap::Args::augment_args),
    ("unwrap", unwrap::Args::augment_args),
    ("proxy", proxy::Args::augment_args),
    #[cfg(target_os = "linux")]
    ("grant", grant::Args::augment_args),
    ("demo", demo::Args::augment_args),
    ("demo-plugin", demo::plugin::Args::augment_args),
    ("demo-signer", |command| command),
    ("image", image::Args::augment_args),
    #[cfg(target_os = "linux")]
    ("node", node::Args::augment_args),
    ("plugin", plugin_test::Args::augment_args),
    ("completions", completions::Args::augment_args),
    ("__complete", completions::CompleteArgs::augment_args),
    ("version", version::Args::augment_args),
    ("man-pages", man_pages::Args::augment_args),
];

#[cfg(test)]
mod tests {
    use clap::{Command, Subcommand as _};

    use super::{TABLE, among};

    /// The help of a command, except for whether the list of commands hides it.
    fn described(mut command: Command) -> String {
        command = command.hide(false).bin_name("keyward");
        let mut text = command.render_long_help().to_string();
        for inner in command.get_subcommands() {
            text += &described(inner.clone());
        }
        text
    }

    #[test]
    fn the_table_has_every_command_as_the_whole_command_line_has_it() {
        let all = super::super::Command::augment_subcommands(Command::new("keyward"));
        let whole: Vec<_> = all.get_subcommands().map(Command::get_name).collect();
        let known: Vec<_> = TABLE.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, whole);
        for command in all.get_subcommands() {
            assert!(command.get_all_aliases().next().is_none(), "the table knows no aliases");
            let alone: Vec<_> = among(&[command.get_name().into()]).collect();
            assert_eq!(alone.len(), 1);
            assert_eq!(described(alone[0].clone()), described(command.clone()));
        }
    }
}
