//! `keyward credential`: runs what the plan says and prints an `ExecCredential`.

use std::process::ExitCode;

use crate::{failure::Failure, globals::Globals};

/// Get the credential and print it as an `ExecCredential`
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The credential of the current context.
  keyward credential

  # In an older version of the protocol.
  keyward credential --api-version client.authentication.k8s.io/v1beta1")]
pub(crate) struct Args {
    /// Version of the protocol to answer in; the default is the one asked for in
    /// $`KUBERNETES_EXEC_INFO`, else v1
    #[arg(long, value_name = "VERSION")]
    api_version: Option<String>,
}

/// Gets the credential and prints it.
pub(crate) fn run(_args: Args, _globals: &Globals) -> Result<ExitCode, Failure> {
    todo!()
}
