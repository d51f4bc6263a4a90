//! `keyward node`: installs Keyward on a node for its kubelet, and removes it (decision 0058).
//!
//! ```text
//! install ──► versions/NAME ──► current (a link, replaced by a rename) ◄── kubelet
//! ```

mod dir;
mod install;
mod kubelet;
mod program;
mod remove;
mod serve;
mod withdraw;

use clap::Subcommand;

use crate::{failure::Failure, globals::Globals};

/// Install Keyward and its providers on a node for the kubelet, or remove them
///
/// The `DaemonSet` of the Helm chart `keyward-node` uses these commands. You can also use them if you
/// set up nodes in another way.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Install(install::Args),
    Remove(remove::Args),
    Serve(serve::Args),
    Withdraw(withdraw::Args),
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    match &args.action {
        Action::Install(args) => install::run(args, globals),
        Action::Remove(args) => remove::run(args),
        Action::Serve(args) => serve::run(args),
        Action::Withdraw(args) => withdraw::run(args, globals),
    }
}
