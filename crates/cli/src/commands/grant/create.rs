//! `keyward grant create`.

use std::time::Duration;

use keyward_proxy::grants::{self, Allow, NewGrant, Rules};
use serde_json::json;

use super::tell_proxy;
use crate::{
    commands::proxy,
    duration,
    failure::Failure,
    globals::Globals,
    output::{self, Format, Output},
};

/// Create a grant for a context, and print the path of the consumer's kubeconfig
///
/// A rule is `VERB[,VERB…]:RESOURCE[/SUBRESOURCE][.GROUP]`, such as `get:pods/log` or
/// `patch:deployments.apps`; `*` stands for every verb, resource or group. These have to be named: `exec`,
/// `attach`, `portforward`, `proxy`, `serviceaccounts/token`, `certificatesigningrequests`, `secrets`, and
/// streams of other subresources but `log`.
/// Every grant may discover what the server has and ask for its own access. The consumer can never
/// impersonate.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of the grant
    #[arg(value_name = "NAME")]
    name: String,

    /// Allow get, list and watch of everything that need not be named
    #[arg(long)]
    read_only: bool,

    /// Only in this namespace, and nothing outside of namespaces; can be repeated
    #[arg(id = "namespace", short, long = "namespace", value_name = "NAME", action = clap::ArgAction::Append)]
    namespaces: Vec<String>,

    /// Allow this; can be repeated
    #[arg(long, value_name = "VERB:RESOURCE")]
    allow: Vec<Allow>,

    /// Act as this user, and let the server decide; with `--as-group` as a member of groups
    #[arg(id = "grant_user", long = "as-user", value_name = "NAME")]
    as_user: Option<String>,

    /// How long the grant lasts
    #[arg(long, value_name = "DURATION", default_value = "8h", value_parser = duration::budget)]
    ttl: Duration,

    /// Also make a socket beside the kubeconfig, for a container that mounts the directory
    #[arg(long)]
    socket: bool,

    #[command(flatten)]
    output: Output,
}

/// Creates the grant, and waits until the proxy enforces it.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let [context] = globals.flags.context.as_slice() else {
        return Err(Failure::usage("a grant is for one context")
            .hint("name it with `--context NAME`; `kubectl config get-contexts` lists them"));
    };
    if !args.read_only && args.allow.is_empty() && args.as_user.is_none() {
        return Err(Failure::usage("the grant would allow nothing")
            .hint("use `--read-only`, `--allow VERB:RESOURCE` or `--as-user NAME`"));
    }
    let rules = Rules {
        read_only: args.read_only,
        allow: args.allow.clone(),
        namespaces: args.namespaces.clone(),
        as_user: args.as_user.clone(),
        as_groups: globals.flags.as_group.clone(),
    };
    let service = proxy::ensure_service(globals)?;
    let new = NewGrant {
        name: args.name.clone(),
        context: context.clone(),
        rules,
        ttl: args.ttl,
        socket: args.socket,
    };
    let (grant, kubeconfig) = grants::create(&service, &globals.surroundings, &new)?;
    tell_proxy(&grant.service, globals)?;
    match args.output.format {
        Format::Json => output::print_json(&json!({
            "name": grant.name,
            "context": grant.context,
            "rules": grant.rules.words(),
            "expires": grant.expires,
            "kubeconfig": kubeconfig,
            "directory": kubeconfig.parent(),
        }))?,
        Format::Text => {
            let words = output::inline(&grant.rules.words().join("; "));
            output::tell(&format!(
                "grant `{}` for context `{}` until {}: {words}\n",
                grant.name,
                output::inline(&grant.context),
                grant.expires,
            ));
            output::print(&format!("{}\n", kubeconfig.display()))?;
        }
    }
    Ok(())
}
