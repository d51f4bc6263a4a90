//! `keyward image`: credentials for pulling images, outside the kubelet.
//!
//! ```text
//! Place ──► Setup: ReloadingConfig + Images ──► Lookup ──► credentials, explain
//!     open                                lookup
//! ```

mod answer;
mod credentials;
mod docker;
pub(crate) mod explain;
pub(crate) mod install;
pub(crate) mod lint;
mod matching;
mod migrate;
mod pod;
pub(crate) mod setup;
mod stream;

use std::process::ExitCode;

use clap::Subcommand;

use crate::{failure::Failure, globals::Globals};

/// Get, explain and check credentials for pulling images
///
/// Runs the image credential providers of a kubelet's configuration as the kubelet does, but
/// outside of it: with the same matching, the same cache and the same order of logins.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands. To add one, add a file, a variant, and a line in [`run`].
#[derive(Debug, Subcommand)]
enum Action {
    Match(matching::Args),
    Credentials(credentials::Args),
    Explain(explain::Args),
    Lint(lint::Args),
    Install(install::Args),
    Migrate(migrate::Args),
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    match &args.action {
        Action::Match(args) => matching::run(args),
        Action::Credentials(args) => credentials::run(args, globals),
        Action::Explain(args) => explain::run(args, globals),
        Action::Lint(args) => lint::run(args, globals),
        Action::Install(args) => install::run(args).map(|()| ExitCode::SUCCESS),
        Action::Migrate(args) => migrate::run(args, globals),
    }
}

impl Args {
    /// Whether providers may run, so that a signal has to stop them.
    pub(crate) fn runs_plugins(&self) -> bool {
        matches!(self.action, Action::Credentials(_) | Action::Explain(_))
    }
}
