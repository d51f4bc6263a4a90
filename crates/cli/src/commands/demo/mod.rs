//! `keyward demo`: shows the main features on a local server, for users without a cluster.
//!
//! ```text
//! Scene: server + issuer + kubeconfig ──► steps, one file each ──► Report: a line for each promise
//! ```
//!
//! Nothing is faked: the server demands and checks credentials, the plugin is this program in a
//! separate process, and every figure is measured. A step reports what it saw and whether that is
//! what was promised.

mod leftovers;
pub(crate) mod plugin;
mod promise;
mod report;
mod scene;
mod softhsm;
mod steps;

use std::time::Duration;

use self::{promise::Promise, report::Report, scene::Scene};
use crate::{
    failure::Failure,
    flags,
    globals::Globals,
    output::{self, Format, Output},
};

/// See it all work on a local server: no cluster, no network needed
///
/// Starts a TLS API server inside this process that demands and checks tokens and client
/// certificates, uses this program as the credential plugin, and walks through what Keyward
/// promises. Each line reports something that was just observed; the exit code is 1 if a promise
/// was broken.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # Twelve seconds, sixteen promises; one more where SoftHSM is installed.
  keyward demo

  # The same, and the server stays for you to try kubectl on it.
  keyward demo --keep

  # For a script.
  keyward demo -o json")]
pub(crate) struct Args {
    /// Keep the server and the kubeconfig afterwards, until Ctrl-C
    #[arg(long)]
    keep: bool,

    /// Break this promise on purpose, to see that the demo notices; runs only its step
    #[arg(long = "break", value_name = "PROMISE", hide = true, conflicts_with = "keep")]
    broken: Option<Promise>,

    #[command(flatten)]
    output: Output,
}

/// How long a step may take; promises not shown by then count as broken.
const STEP: Duration = Duration::from_secs(12);

/// Runs the steps.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    // The requests of a step and the issuer that answers its plugins run at the same time.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(walk(args, globals))
}

async fn walk(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let scene = Scene::open(&globals.surroundings, args.broken)?;
    let mut report = Report::new(args.output.format, globals);
    report.begin(&scene)?;
    for step in steps::ALL {
        if args.broken.is_some_and(|promise| !step.promises.contains(&promise)) {
            continue;
        }
        report.announce(step.promises);
        let failure = match tokio::time::timeout(STEP, (step.run)(&scene, &mut report)).await {
            Ok(Ok(())) => continue,
            Ok(Err(failure)) => failure,
            Err(_) => Failure::failed(format!("not seen within {} s", STEP.as_secs())),
        };
        let missing: Vec<_> = step.promises.iter().filter(|p| !report.has(**p)).collect();
        if missing.is_empty() {
            return Err(failure);
        }
        for promise in missing {
            report.fail(*promise, &failure)?;
        }
    }
    report.end(args.keep.then_some(&scene))?;
    report.verdict()?;
    if args.keep {
        scene.settle();
        if args.output.format == Format::Text {
            output::print(&scene.invitation())?;
        }
        // Until a signal ends us, and the directory with us.
        std::future::pending::<()>().await;
    }
    Ok(())
}
