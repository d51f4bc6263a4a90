//! A command with the proxy's kubeconfig, in the foreground as if we were not there.

use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus},
};

use keyward_host::Surroundings;
use nix::{
    sys::signal::{SigSet, Signal, kill},
    unistd::Pid,
};
use rustix::process::{Pid as Waited, WaitId, WaitIdOptions, waitid};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::{failure::Failure, globals::Globals};

/// Runs it to its end, and gives its exit code; 128 and the signal's number if one ended it.
pub(crate) async fn run(
    words: &[OsString],
    kubeconfig: &Path,
    globals: &Globals,
    mut signals: UnboundedReceiver<Signal>,
) -> Result<ExitCode, Failure> {
    let mut child = spawn(words, kubeconfig)?;
    let id = child.id();
    let mut ended = tokio::task::spawn_blocking(move || await_end(id));
    loop {
        tokio::select! {
            _ = &mut ended => break,
            Some(signal) = signals.recv() => forward(signal, id, &globals.surroundings),
        }
    }
    let status = child.wait().map_err(|error| {
        Failure::failed("the command's end was missed").note("cause", error.to_string())
    })?;
    Ok(ExitCode::from(code(status)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "no plugin but a person's own command: it has our terminal, our files and no limit"
)]
fn spawn(words: &[OsString], kubeconfig: &Path) -> Result<Child, Failure> {
    let Some((program, args)) = words.split_first() else {
        return Err(Failure::usage("there is no command"));
    };
    // It inherits what is blocked here, and would not hear a Ctrl-C.
    let blocked = SigSet::thread_get_mask();
    let _ = SigSet::empty().thread_set_mask();
    let child = Command::new(program).args(args).env("KUBECONFIG", kubeconfig).spawn();
    if let Ok(blocked) = blocked {
        let _ = blocked.thread_set_mask();
    }
    child.map_err(|error| {
        Failure::failed(format!("`{}` could not be started", program.display()))
            .note("cause", error.to_string())
    })
}

/// Returns when the process has ended, and leaves it to be reaped: until then its number is its own.
fn await_end(id: u32) {
    let Some(pid) = i32::try_from(id).ok().and_then(Waited::from_raw) else {
        return;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
}

/// What a terminal sends to the group in front of it, the command has got already.
fn forward(signal: Signal, id: u32, surroundings: &Surroundings) {
    let from_terminal =
        matches!(signal, Signal::SIGINT | Signal::SIGQUIT) && surroundings.has_terminal();
    if let Ok(id) = i32::try_from(id)
        && !from_terminal
    {
        let _ = kill(Pid::from_raw(id), signal);
    }
}

fn code(status: ExitStatus) -> u8 {
    let signal = || 128 + status.signal().unwrap_or(0);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1)
}
