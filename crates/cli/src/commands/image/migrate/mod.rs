//! `keyward image migrate`: turns how a node logs in to registries today into a configuration of providers.
//!
//! ```text
//! Root ──► Kubelet ──► Plan ──► Report ──► stdout, or files
//!     read: unit.rs    files.rs
//! ```

mod entry;
mod files;
mod kubelet;
mod plan;
mod report;
mod root;
mod unit;
mod write;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyward_host::redact::redact;
use keyward_image::{Config, Files, Reading, Severity};

use self::{kubelet::Kubelet, plan::Plan, report::Report, root::Root};
use super::lint::minor;
use crate::{
    failure::Failure,
    flags,
    globals::Globals,
    output::{self, Output, Style, inline},
};

/// Where the new files are for the node, if `--write` does not say so.
const DIRECTORY: &str = "/etc/kubernetes/keyward";

/// Generate a configuration of providers that gives the logins that a node has today
///
/// Reads the kubelet's service, flags, configuration and providers, docker's `config.json`, `registries.yaml` of k3s
/// and RKE2, and the settings of containerd and Azure. Prints the new configuration, the flags that the kubelet needs,
/// what changes, and how to roll back. Writes nothing without `--write`, and replaces no file without `--force`. Never
/// prints a secret: the new configuration names the files that contain secrets.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # What would change on this node.
  keyward image migrate

  # What would change on a node with kubelet 1.26, from a copy of its files.
  keyward image migrate --root /mnt/node --kubelet 1.26

  # Write the new files, which the kubelet's new flags name.
  keyward image migrate --write /etc/kubernetes/keyward")]
pub(crate) struct Args {
    /// The root directory of the node, or of a copy of its files
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// Write the configuration, the kubelet's flags and this report into this directory
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,

    /// Replace files of an earlier `--write`, and keep each old file with `.old` after its name
    #[arg(long, requires = "write")]
    force: bool,

    /// The directory of the providers' programs, instead of the one that the kubelet uses today
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,

    /// The version of the node's kubelet
    #[arg(long, value_name = "1.N", value_parser = minor)]
    kubelet: Option<u32>,

    #[command(flatten)]
    output: Output,
}

/// Prints the report; the exit code is 1 if a part of today's logins cannot be taken over.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let root = Root::new(&globals.surroundings.absolute(&args.root))?;
    let kubelet = Kubelet::read(&root)?;
    let mut plan = Plan::new(&root, &kubelet, args.kubelet)?;
    if let Some(bin_dir) = &args.bin_dir {
        plan.bin_dir.clone_from(bin_dir);
    }
    if plan.entries.is_empty() && plan.notes.iter().all(|note| note.severity != Severity::Error) {
        let shown = output::path(&args.root);
        let mut failure = Failure::failed(format!("nothing below `{shown}` logs in to a registry"));
        for note in plan.notes {
            failure = failure.note("note", note.message);
        }
        return Err(failure.hint(
            "`--kubelet 1.N` also considers what kubelets of that version do by themselves",
        ));
    }
    let directory = args.write.as_deref().map_or_else(
        || DIRECTORY.into(),
        |path| root.on_node(&globals.surroundings.absolute(path)),
    );
    let text = entry::config(plan.form, &plan.entries);
    check(&mut plan, &text, args.kubelet)?;
    let blocked = plan.notes.iter().any(|note| note.severity == Severity::Error);
    let mut report = Report::new(&args.root, kubelet, plan, text, &directory);
    if let Some(directory) = &args.write {
        if blocked {
            output::tell(&redact(&report.notes_text(Style::of_stderr(globals))));
            return Err(Failure::failed(
                "nothing was written: a part of today's logins cannot be taken over",
            ));
        }
        // In a copy of a node, links lead to where they would on the node, not to files of this machine.
        let place = root.place(&globals.surroundings.absolute(directory));
        report.written = write::all(&place, &report.files(), args.force)?;
    }
    args.output.print_redacted(&report, || report.layout(Style::of_stdout(globals)))?;
    Ok(if blocked { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Checks the new configuration as `keyward image lint` does, without looking for programs.
fn check(plan: &mut Plan, text: &str, minor: Option<u32>) -> Result<(), Failure> {
    if plan.entries.is_empty() {
        return Ok(());
    }
    let files = Files::from_bytes(Path::new(report::CONFIG), text.as_bytes().to_vec());
    let (config, problems) = Config::review(&files, Reading::Kubelet);
    if let Some(problem) = problems.first() {
        return Err(Failure::failed("the new configuration would not be valid")
            .note("problem", format!("`{}` {}", problem.field, problem.message)));
    }
    for finding in config.lint(false, minor) {
        let provider = finding.provider.map(|name| format!("`{}`: ", inline(&name)));
        plan.note(finding.severity, format!("{}{}", provider.unwrap_or_default(), finding.message));
    }
    Ok(())
}
