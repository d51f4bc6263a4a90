//! Runs the plugin without the agent.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use crate::{tell, var};

/// Becomes `keyward`, which checks the policy and then becomes the plugin. Without `keyward`,
/// becomes the plugin directly, unless a policy exists that nobody could check.
pub(crate) fn run(command: &OsString, args: &[OsString]) -> ExitCode {
    if let Some(keyward) = keyward() {
        let words = ["run-plugin", "--"].map(OsString::from);
        let all: Vec<_> = words.into_iter().chain([command.clone()]).chain(args.to_vec()).collect();
        let error = become_program(keyward.as_os_str().to_owned(), &all);
        tell(&format!("cannot run `{}`: {error}", keyward.display()));
        return ExitCode::FAILURE;
    }
    if let Some(kuberc) = kuberc() {
        tell(&format!(
            "`{}` may forbid this plugin; install `keyward` next to `keyward-exec` or on `PATH`, so \
             that the policy can be checked",
            kuberc.display()
        ));
        return ExitCode::from(4);
    }
    not_run(command, &become_program(command.clone(), args))
}

/// Reports a program that cannot be run, with the exit code that a shell has for it.
pub(crate) fn not_run(program: &OsStr, error: &io::Error) -> ExitCode {
    tell(&format!("cannot run `{}`: {error}", program.to_string_lossy()));
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// `keyward` next to this program, or on `PATH`.
pub(crate) fn keyward() -> Option<PathBuf> {
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.join("keyward")));
    let path = var("PATH").unwrap_or_default();
    let on_path =
        env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("keyward"));
    beside.into_iter().chain(on_path).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    return rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
    #[cfg(not(unix))]
    return path.is_file();
}

/// The kuberc that kubectl would read, if it exists.
fn kuberc() -> Option<PathBuf> {
    let named = var("KUBERC").filter(|value| !value.is_empty());
    match named {
        Some(value) if value == "off" => None,
        Some(value) => Some(PathBuf::from(value)),
        None => {
            let home = PathBuf::from(var("HOME").filter(|home| !home.is_empty())?);
            Some(home.join(".kube/kuberc")).filter(|path| path.symlink_metadata().is_ok())
        }
    }
}

#[cfg(unix)]
#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process becomes the program"
)]
fn become_program(program: OsString, args: &[OsString]) -> io::Error {
    use std::os::unix::process::CommandExt as _;
    Command::new(program).args(args).exec()
}

#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "this process does nothing but wait for the program")]
fn become_program(program: OsString, args: &[OsString]) -> io::Error {
    match Command::new(program).args(args).status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
