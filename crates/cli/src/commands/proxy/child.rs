//! Runs a command with the proxy's kubeconfig, in the foreground as if the proxy were not there.

use std::{
    ffi::{CString, OsString},
    io,
    os::unix::ffi::OsStringExt,
    path::Path,
    process::ExitCode,
};

use keyward_process::harden;
use keyward_process::surroundings::Surroundings;
use nix::{
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{
        signal::{SigSet, Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};
use rustix::process::{Pid as Waited, WaitId, WaitIdOptions, waitid};
use tokio::sync::mpsc::UnboundedReceiver;

use super::signals::Received;
use crate::{
    failure::{Code, Failure},
    globals::Globals,
};

/// Runs the command and returns its exit code: 128 plus the signal's number if a signal ended it,
/// and 127 or 126, as in shells, if it does not exist or cannot be run.
pub(crate) async fn run(
    words: &[OsString],
    kubeconfig: &Path,
    globals: &Globals,
    mut signals: UnboundedReceiver<Received>,
) -> Result<ExitCode, Failure> {
    let child = spawn(words, kubeconfig, &globals.surroundings).map_err(|error| {
        let name = words.first().map(|word| word.display().to_string()).unwrap_or_default();
        let code = match error.kind() {
            io::ErrorKind::NotFound => Code::NotFound,
            _ => Code::NotRun,
        };
        Failure::new(code, format!("`{name}` could not be started"))
            .note("cause", error.to_string())
    })?;
    let mut ended = tokio::task::spawn_blocking(move || await_end(child));
    loop {
        tokio::select! {
            _ = &mut ended => break,
            Some(received) = signals.recv() => forward(received, child),
        }
    }
    let status = waitpid(child, None).map_err(Failure::of("cannot wait for the command"))?;
    Ok(ExitCode::from(code(status)))
}

/// Starts the command with our terminal, our files and no blocked signals. With the standard
/// library, signals that we block would get through to us for a moment.
#[expect(
    clippy::disallowed_methods,
    reason = "no plugin but a person's own command: it has our terminal, our files and no limit"
)]
fn spawn(words: &[OsString], kubeconfig: &Path, from: &Surroundings) -> io::Result<Pid> {
    let text = |word: OsString| CString::new(word.into_vec());
    let args = words.iter().cloned().map(text).collect::<Result<Vec<_>, _>>()?;
    let program = args.first().ok_or_else(|| io::Error::other("there is no command"))?;
    let others = from.vars().into_iter().filter(|(name, _)| name != "KUBECONFIG");
    let own = ("KUBECONFIG".into(), kubeconfig.into());
    let line = |(name, value)| OsString::from_iter([name, "=".into(), value]);
    let env = others.chain([own]).map(line).map(text).collect::<Result<Vec<_>, _>>()?;
    let start = || -> nix::Result<Pid> {
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
        )?;
        attributes.set_sigdefault(&SigSet::from_iter([Signal::SIGPIPE]))?;
        attributes.set_sigmask(&SigSet::empty())?;
        posix_spawnp(program, &PosixSpawnFileActions::init()?, &attributes, &args, &env)
    };
    let child = start()?;
    harden::restore(child.as_raw().cast_unsigned());
    Ok(child)
}

/// Returns when the process has ended, without reaping it: until then its id is not reused.
fn await_end(child: Pid) {
    let Some(pid) = Waited::from_raw(child.as_raw()) else {
        return;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
}

/// A signal from a terminal goes to the whole foreground group, so the command already has it. A
/// signal from a process is meant for us, and so for the command.
fn forward(received: Received, child: Pid) {
    if !received.by_key {
        let _ = kill(child, received.signal);
    }
}

fn code(status: WaitStatus) -> u8 {
    let code = match status {
        WaitStatus::Exited(_, code) => code,
        WaitStatus::Signaled(_, signal, _) => return signalled(signal),
        _ => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

/// The exit code after a signal.
pub(crate) fn signalled(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(1)
}
