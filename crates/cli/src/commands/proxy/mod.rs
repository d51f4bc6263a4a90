//! `keyward proxy`: adds credentials to the requests of unmodified clients.

mod child;
mod config;
#[cfg(target_os = "linux")]
mod dashboard;
#[cfg(target_os = "linux")]
mod link;
mod run;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod service;
mod signals;
mod status_cmd;
#[cfg(target_os = "linux")]
mod substitution;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use keyward_proxy::{Allowed, Contexts, Options};

use self::run::Until;
#[cfg(target_os = "linux")]
pub(crate) use self::service::{end_without_agent, ensure as ensure_service};
use crate::{duration, failure::Failure, flags, globals::Globals, output::Output};

/// Serve contexts to unmodified clients: kubectl, helm, k9s and anything else with a kubeconfig
///
/// Listens on this machine with TLS, and connects to the clusters with Keyward's credentials.
/// Writes a kubeconfig with temporary client certificates, which admits clients of this user and
/// nobody else. With a command, runs it and exits with its exit code. `keyward proxy start` runs a
/// proxy in the background, with a permanent kubeconfig.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  # In the background, for all clients of this shell.
  eval \"$(keyward proxy env)\"

  # Run one command through a temporary proxy.
  keyward proxy -- kubectl get pods

  # Serve the current context until Ctrl-C; prints what to set for clients.
  keyward proxy

  # Serve two contexts at a fixed address; exit after an hour without requests.
  keyward proxy --context dev --context prod --listen 127.0.0.1:8443 --idle-timeout 1h

  # Show which contexts are served, as whom, and until when.
  keyward proxy status"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// Serve every context of the kubeconfig; to serve only some, repeat `--context`
    #[arg(long)]
    all_contexts: bool,

    /// Where to listen; with port 0 each context keeps its own port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Where to write the clients' kubeconfig, instead of a private directory; deleted at the end
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,

    /// Exit after this time without a request
    #[arg(long, value_name = "DURATION", value_parser = duration::budget)]
    idle_timeout: Option<Duration>,

    /// How long open requests may take to finish at the end
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::timeout)]
    grace: Duration,

    /// Also serve `/metrics` and `/healthz` here, without TLS; the socket for `status` always does
    #[arg(long, value_name = "ADDRESS")]
    admin_listen: Option<SocketAddr>,

    /// Forward requests that carry their own `Authorization`, unchanged
    #[arg(long)]
    allow_authorization: bool,

    /// Forward requests that impersonate another user (`--as`)
    #[arg(long)]
    allow_impersonation: bool,

    /// Listen on addresses other than loopback, under these names
    #[arg(
        long, value_name = "NAME,…", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_delimiter = ','
    )]
    danger_listen_remote: Option<Vec<String>>,

    /// Also get a new credential when a server answers 403
    #[arg(long)]
    refresh_on_403: bool,

    /// A command to run with `KUBECONFIG` set
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<OsString>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    #[cfg(target_os = "linux")]
    Start(service::Start),
    #[cfg(target_os = "linux")]
    Stop(service::Stop),
    #[cfg(target_os = "linux")]
    Env(service::Env),
    #[cfg(target_os = "linux")]
    Dashboard(dashboard::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Serve(serve::Args),
    /// Show what running proxies serve, as whom, and until when
    Status(Status),
}

#[derive(Debug, clap::Args)]
#[command(args = flags::only_general())]
struct Status {
    #[command(flatten)]
    output: Output,
}

/// Runs the proxy, or shows the running ones.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    match &args.command {
        #[cfg(target_os = "linux")]
        Some(Command::Start(args)) => service::start(args, globals)?,
        #[cfg(target_os = "linux")]
        Some(Command::Stop(_)) => service::stop(globals)?,
        #[cfg(target_os = "linux")]
        Some(Command::Env(args)) => service::env(args, globals)?,
        #[cfg(target_os = "linux")]
        Some(Command::Dashboard(args)) => dashboard::run(args, globals)?,
        #[cfg(target_os = "linux")]
        Some(Command::Serve(args)) => return serve::run(args, globals),
        Some(Command::Status(status)) => return status_cmd::run(globals, status.output.format),
        #[cfg(target_os = "linux")]
        None if args.words.is_empty() && substitution::is_here() => substitute(args, globals)?,
        None => return run_here(args, globals),
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves in this process.
fn run_here(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let mut contexts = config::contexts(args.all_contexts, &globals.flags)?;
    if contexts == Contexts::Current && !args.words.is_empty() && !config::is_overridden(globals) {
        // A command may name any of them.
        contexts = Contexts::Every;
    }
    let options = Options {
        contexts,
        listen: args.listen,
        kubeconfig: args.write_kubeconfig.clone(),
        admin: args.admin_listen,
        allowed: Allowed {
            authorization: args.allow_authorization,
            impersonation: args.allow_impersonation,
        },
        danger_listen_remote: args.danger_listen_remote.clone(),
        refresh_on_403: args.refresh_on_403,
        service: None,
    };
    let until = Until { command: args.words.clone(), idle: args.idle_timeout, grace: args.grace };
    run::run(&options, &until, globals)
}

/// `eval "$(keyward proxy)"`: the shell waits until this process ends, so it may not serve itself.
#[cfg(target_os = "linux")]
fn substitute(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let only_here = args.listen.port() != 0
        || args.write_kubeconfig.is_some()
        || args.admin_listen.is_some()
        || args.danger_listen_remote.is_some()
        || args.allow_authorization
        || args.allow_impersonation
        || !globals.flags.context.is_empty();
    if only_here {
        return Err(Failure::usage("the shell would wait for this proxy, which does not end")
            .hint("`eval \"$(keyward proxy env)\"` uses one in the background, or run this one in its own terminal"));
    }
    service::substitute(globals)
}
