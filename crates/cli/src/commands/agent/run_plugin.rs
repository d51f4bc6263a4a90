//! `keyward run-plugin`: what `keyward-exec` becomes when the agent cannot help.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _};

use keyward_host::rules::Verdict;
use keyward_process::harden;

use crate::{
    failure::{Code, Failure},
    globals::Globals,
};

/// Check a plugin against the policy, then become it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plugin and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Becomes the plugin; returns only if that is not possible.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let Some((command, rest)) = args.command.split_first() else {
        return Err(Failure::usage("which plugin?"));
    };
    let name = command.to_str().ok_or_else(|| Failure::usage("the command is not UTF-8"))?;
    let rules = globals.rules()?;
    let program = match rules.judge(name, &globals.surroundings) {
        // The file's owner and mode are not checked: a wrapped plugin runs wherever it ran before.
        (Verdict::Allowed | Verdict::Listed(_), Ok(found)) => globals.surroundings.absolute(&found),
        _ => rules.admit(name, &globals.surroundings)?.path,
    };
    harden::restore(std::process::id());
    let error = become_program(&program, command, rest);
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let code = if is_missing { Code::NotFound } else { Code::NotRun };
    Err(Failure::new(code, format!("cannot run `{}`: {error}", program.display())))
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process becomes the program"
)]
fn become_program(program: &std::path::Path, name: &OsString, args: &[OsString]) -> io::Error {
    std::process::Command::new(program).arg0(name).args(args).exec()
}
