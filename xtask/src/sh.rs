//! Runs a command of ours and says what it is.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Runs `command`, shown first; whether it succeeded.
pub fn run(command: &mut Command) -> Result<bool, String> {
    eprintln!("$ {}", show(command));
    let status = command
        .status()
        .map_err(|e| format!("cannot start `{}`: {e}", command.get_program().display()))?;
    Ok(status.success())
}

/// What a command prints; it must succeed.
pub fn capture(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start `{program}`: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("`{program}` failed: {}\n{text}", output.status));
    }
    Ok(text)
}

/// Whether a program of this name can be started at all.
pub fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// A program in which the signals that end programs have their default action. `nohup`, or a script
/// that puts us into the background, makes us ignore some; what the tests start would inherit that,
/// and the tests send these signals.
pub fn program(path: impl AsRef<OsStr>) -> Command {
    /// SIGHUP, SIGINT, SIGQUIT, SIGTERM, as bits counted from 1.
    const ENDING: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.is_none_or(|mask| mask & ENDING == 0) {
        return Command::new(path);
    }
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", "--"]).arg(path);
    command
}

/// `cargo` as the one that runs us.
pub fn cargo() -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    // Cargo describes xtask in the environment. Some build scripts, such as ring's, look at these variables, so
    // everything above them would be built again whenever people switch between `cargo` and `cargo xtask`.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start))
        }) {
            command.env_remove(name);
        }
    }
    command
}

/// The directory that everything is built into: cargo has put us there too, whatever its configuration says.
pub fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    // A test of ours is one directory deeper.
    let above = if own.parent().is_some_and(|parent| parent.ends_with("deps")) { 3 } else { 2 };
    own.ancestors().nth(above).map_or_else(|| crate::root().join("target"), Path::to_owned)
}

fn show(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}
