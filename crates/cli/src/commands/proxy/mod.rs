//! `keyward proxy`: adds credentials to the requests of unmodified clients.

mod child;
mod config;
mod run;
mod signals;
mod status_cmd;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use keyward_proxy::{Allowed, Options};

use self::run::Until;
use crate::{duration, failure::Failure, flags, globals::Globals, output::Output};

/// Serve contexts to unmodified clients: kubectl, helm, k9s and anything else with a kubeconfig
///
/// Listens on this machine with TLS, and connects to the clusters with Keyward's credentials.
/// Writes a kubeconfig with temporary client certificates, which admits clients of this user and
/// nobody else. With a command, runs it and exits with its exit code.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  # One command, as any client would run.
  keyward proxy -- kubectl get pods

  # Serve the current context until Ctrl-C; prints what to set for clients.
  keyward proxy

  # Two contexts under a fixed address, ended after an hour without requests.
  keyward proxy --context dev --context prod --listen 127.0.0.1:8443 --idle-timeout 1h

  # What runs, as whom, and until when.
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
    if let Some(Command::Status(status)) = &args.command {
        return status_cmd::run(globals, status.output.format);
    }
    let options = Options {
        contexts: config::contexts(args.all_contexts, &globals.flags)?,
        listen: args.listen,
        kubeconfig: args.write_kubeconfig.clone(),
        admin: args.admin_listen,
        allowed: Allowed {
            authorization: args.allow_authorization,
            impersonation: args.allow_impersonation,
        },
        danger_listen_remote: args.danger_listen_remote.clone(),
        refresh_on_403: args.refresh_on_403,
    };
    let until = Until { command: args.words.clone(), idle: args.idle_timeout, grace: args.grace };
    run::run(&options, &until, globals)
}
