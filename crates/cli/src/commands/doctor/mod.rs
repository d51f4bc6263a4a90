//! `keyward doctor`: checks the whole way from the kubeconfig to the server's answer, and says what is
//! wrong with it and how to fix it.
//!
//! ```text
//! kubeconfig ──► plugin ──────► credential ──► network ──► connection, server ──► local ──► traps
//! files, entry   policy, program   run, answer   one request   dns … identity         wrap, agent
//! ```
//!
//! Each module makes its steps with what the other commands use, and adds them to a `Report`. A step
//! that depends on a failed one is skipped, the others are made.

mod answer;
mod connection;
mod credential;
mod fix;
mod image;
mod kubeconfig;
mod local;
mod names;
mod network;
mod plugin;
mod server;
mod step;
mod text;
mod traps;

use std::process::ExitCode;

use keyward_process::clock::{Clock as _, SystemClock};
use serde::Serialize;

use self::step::{Check, Report, Step};
use super::image::setup::Place;
use crate::{
    duration,
    failure::Failure,
    globals::Globals,
    output::{Output, Style},
};

/// Find out what is wrong, and how to fix it
///
/// Checks the kubeconfig, the plugin and its policy, runs the plugin, connects to the server and asks
/// who you are. Goes on after a fault. Names the cause of each fault, where it is, and the command that
/// fixes it. The report has no secrets; `--redact` also hides names and addresses.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The current context.
  keyward doctor

  # A report to paste into a ticket.
  keyward doctor --context prod --redact

  # Why an image cannot be pulled.
  keyward doctor --image registry.example/app --config providers.yaml --bin-dir /opt/providers

Exit codes:
  0  no faults
  1  something is wrong; `-o json` names the step")]
pub(crate) struct Args {
    /// Check how this image gets its login, instead of a context
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,

    /// Also hide names and addresses; the same name gets the same placeholder
    #[arg(long)]
    redact: bool,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    output: Output,
}

/// The report as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    version: &'static str,
    /// Whether nothing is wrong.
    ok: bool,
    /// The names of the steps with faults.
    faults: Vec<Check>,
    took: String,
    steps: &'a [Step],
}

/// Makes all steps and prints them; the exit code is 1 if there is a fault.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let start = SystemClock.elapsed();
    let mut report = Report::default();
    match &args.image {
        Some(image) => image::check(&mut report, globals, &args.place, image),
        None => check_context(&mut report, globals),
    }
    let faults = report.faults();
    let good = faults.is_empty();
    let took = duration::show(SystemClock.elapsed().saturating_sub(start));
    if args.redact {
        report.hide_names(&globals.surroundings);
    }
    let document = Document {
        version: env!("CARGO_PKG_VERSION"),
        ok: good,
        faults,
        took,
        steps: &report.steps,
    };
    let style = Style::of_stdout(globals);
    args.output.print_redacted(&document, || text::layout(&report, style))?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check_context(report: &mut Report, globals: &Globals) {
    use Check::{Answer, Entry, Kubeconfig, Policy, Program, Response, Run};

    let Some(config) = kubeconfig::files(report, globals) else {
        return report.skip(&[Entry, Policy, Program, Run, Answer, Response], Kubeconfig);
    };
    let Some(target) = kubeconfig::entry(report, globals, &config) else {
        return report.skip(&[Policy, Program, Run, Answer, Response], Entry);
    };
    let (globals, witness) = credential::watched(globals);
    let draft = plugin::check(report, &globals, target.clone());
    let plugin = draft.as_ref().and_then(traps::Plugin::of);
    let got = credential::check(report, &globals, draft, &witness);
    let reached = network::reach(&globals, &target, &got);
    let offset = reached.response.as_ref().and_then(|response| response.offset);
    answer::check(report, &globals, &target, &got, offset);
    connection::check(report, &globals, &target, &reached);
    server::check(report, &target, &reached);
    local::check(report, &globals, &config, &got);
    traps::check(report, &globals, plugin.as_ref());
}
