//! `keyward grant`: access for a tool, a container or an AI agent, which can be taken back (decision
//! 0061).

mod create;
mod list;
mod log;

use std::io::ErrorKind::{ConnectionRefused, NotFound};

use clap_complete::ArgValueCandidates;
use keyward_proxy::grants;

use crate::{commands::completions::names, failure::Failure, flags, globals::Globals, output};

/// Give a tool, a container or an AI agent limited access to a context, and take it back
///
/// The consumer gets a kubeconfig with a client certificate of its own, and never your credential. The
/// background proxy forwards what the grant allows and records every request.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  # Let an AI agent read, but not secrets, for a working day.
  export KUBECONFIG=\"$(keyward grant create assistant --context prod --read-only --ttl 8h)\"

  # Let a script restart deployments in one namespace.
  keyward grant create ci --context dev --namespace shop --allow get,patch:deployments.apps

  # See what it did, and end it.
  keyward grant log assistant
  keyward grant revoke assistant"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Create(create::Args),
    List(list::Args),
    Revoke(Revoke),
    Log(log::Args),
}

/// End a grant, and close its connections
///
/// The grant's certificate is worth nothing afterwards. Its log stays.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general())]
struct Revoke {
    /// The name of the grant
    #[arg(value_name = "NAME", add = ArgValueCandidates::new(names::grants))]
    name: String,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    match &args.action {
        Action::Create(args) => create::run(args, globals),
        Action::List(args) => list::run(args, globals),
        Action::Revoke(args) => revoke(args, globals),
        Action::Log(args) => log::run(args, globals),
    }
}

fn revoke(args: &Revoke, globals: &Globals) -> Result<(), Failure> {
    let name = &args.name;
    let Some(grant) = grants::revoke(&globals.surroundings, name)? else {
        return Err(Failure::failed(format!("there is no grant `{}`", output::inline(name)))
            .hint("`keyward grant list` shows those in force"));
    };
    tell_proxy(&grant.service, globals)
}

/// Has the proxy of a service, if it is running, read its grants again.
fn tell_proxy(service: &str, globals: &Globals) -> Result<(), Failure> {
    for running in keyward_proxy::running(&globals.surroundings)? {
        // One that does not say whose proxy it is may be this service's.
        if running.status().is_ok_and(|status| status["service"] != service) {
            continue;
        }
        match running.reload_grants() {
            Ok(()) => {}
            // It has ended meanwhile.
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => {}
            Err(error) => {
                let process = running.pid;
                let what = format!("the proxy (process {process}) does not answer");
                return Err(Failure::failed(what)
                    .note("cause", error.to_string())
                    .hint(format!("`kill {process}` ends it; then the change counts")));
            }
        }
    }
    Ok(())
}
