//! `keyward unwrap`: restores the plugin commands of a kubeconfig.

use std::{collections::BTreeMap, path::PathBuf};

use keyward_agent::{
    registration::Registrations,
    wrap::{Journal, file as wrapped},
};
use keyward_host::Kubeconfig;

use super::wrap::{by_file, chosen, docker, failed, no_home};
use crate::{failure::Failure, globals::Globals, output};

/// Restore kubeconfigs that `keyward wrap` changed
///
/// A kubeconfig that has not changed since is restored byte for byte. If it has changed elsewhere,
/// those changes are kept.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The user of the current context.
  keyward unwrap

  # Every kubeconfig that was ever wrapped; do this before you uninstall Keyward.
  keyward unwrap --all")]
pub(crate) struct Args {
    /// Restore all users of all kubeconfigs that were wrapped, and docker's `config.json`
    #[arg(long)]
    all: bool,

    /// Restore the credential helpers in docker's `config.json`
    #[arg(long, conflicts_with = "all")]
    docker: bool,

    /// Show what would be restored, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let journals = Journal::directory(&globals.surroundings).ok_or_else(no_home)?;
    let mut told = Vec::new();
    let mut failure = None;
    if args.docker || args.all {
        told.extend(docker::unwrap(globals, &journals, args.all, args.dry_run)?);
    }
    if args.docker {
        if told.is_empty() {
            told.push("nothing is replaced\n".to_owned());
        }
        return output::print(&told.concat());
    }
    for (file, users) in wanted(args, globals, &journals)? {
        let is_wanted = |user: &str| users.as_ref().is_none_or(|u| u.iter().any(|u| u == user));
        let outcome = match wrapped::unwrap_file(&file, &journals, is_wanted, args.dry_run) {
            Ok(outcome) => outcome,
            // A file that cannot be restored must not keep the others from being restored.
            Err(error) => {
                failure.get_or_insert(failed(&file, &error));
                continue;
            }
        };
        let shown = file.display();
        let mut line = |what: &str, users: &[String], rest: &str| {
            if !users.is_empty() {
                told.push(format!("{shown}: {what} {}{rest}\n", output::list(users)));
            }
        };
        let verb = if args.dry_run { "would restore" } else { "restored" };
        line(verb, &outcome.changed, "");
        let style = ", so the style may differ from the original";
        line("no record of", &outcome.restyled, style);
        line("another program had overwritten", &outcome.overwritten, "; nothing to restore");
        if !args.dry_run {
            forget(globals, &outcome)?;
        }
    }
    if told.is_empty() && failure.is_none() {
        told.push("nothing is wrapped\n".to_owned());
    }
    output::print(&told.concat())?;
    failure.map_or(Ok(()), Err)
}

/// The files, with the users to unwrap; `None` for all of them.
fn wanted(
    args: &Args,
    globals: &Globals,
    journals: &std::path::Path,
) -> Result<BTreeMap<PathBuf, Option<Vec<String>>>, Failure> {
    if args.all {
        let own = Kubeconfig::paths(&globals.surroundings, globals.flags.kubeconfig()).into_iter();
        let known = Journal::list(journals).into_iter().map(|journal| journal.kubeconfig);
        let files = own.filter_map(|path| path.canonicalize().ok()).chain(known);
        return Ok(files.filter(|path| path.exists()).map(|path| (path, None)).collect());
    }
    let config = globals.kubeconfig()?;
    let files = by_file(&chosen(&config, globals, false, false)?, globals);
    let names = |users: Vec<&keyward_host::kubeconfig::Named<_>>| {
        users.iter().map(|user| user.name.clone()).collect()
    };
    Ok(files.into_iter().map(|(file, users)| (file, Some(names(users)))).collect())
}

/// Removes the registrations of unwrapped users.
fn forget(globals: &Globals, outcome: &wrapped::Outcome) -> Result<(), Failure> {
    let directory = Registrations::directory(&globals.surroundings).ok_or_else(no_home)?;
    let mut registrations = Registrations::new(directory);
    for registration in registrations.list() {
        let gone =
            outcome.changed.iter().chain(&outcome.overwritten).any(|u| *u == registration.user);
        if gone && registration.kubeconfig == outcome.file {
            registrations.remove(&registration).map_err(|error| {
                Failure::failed(format!("a registration cannot be removed: {error}"))
            })?;
        }
    }
    Ok(())
}
