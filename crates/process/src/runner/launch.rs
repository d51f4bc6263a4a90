//! From an invocation to a child process with pipes.
//!
//! `posix_spawn`, not fork and exec: its cost does not grow with our memory, and it never lets a
//! shell guess at a file the kernel refused (`execvp`, which the standard library falls back to for
//! a new session, does).

use std::{
    ffi::{CString, OsString},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    time::Duration,
};

use nix::{
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn},
    sys::signal::{SigSet, Signal},
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::Pid,
};
use zeroize::Zeroizing;

use super::{
    Failure, Invocation, Left, Stderr, Stdin, argument_sizes, cancel::Listener, child::Child,
};
use crate::{FileId, harden, surroundings::merge, trust};

/// Our ends of the pipes, none of them blocking.
pub(super) struct Pipes {
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: Option<OwnedFd>,
}

/// Starts the program.
pub(super) fn launch(
    invocation: &Invocation,
    listener: &Listener,
) -> Result<(Child, Pipes), Failure> {
    let (pipes, theirs) = pipes(invocation).map_err(|errno| Failure::System(errno.into()))?;
    let actions = theirs.actions().map_err(nix_failure)?;
    let attributes = attributes(invocation).map_err(nix_failure)?;
    let strings = Strings::new(invocation)?;
    let mut pauses = BUSY_PAUSES.iter();
    loop {
        check_identity(invocation)?;
        match strings.spawn(&actions, &attributes) {
            Ok(pid) => {
                harden::restore(pid.as_raw_nonzero().get().cast_unsigned());
                let group = !invocation.attended;
                return Ok((Child::new(pid, group).map_err(Failure::System)?, pipes));
            }
            Err(Errno::TXTBSY) => {
                let pause = pauses.next().ok_or(Failure::Busy)?;
                wait_or_stop(*pause, listener)?;
            }
            Err(errno) => return Err(explain(errno, invocation)),
        }
    }
}

/// A program that was just written is busy for as long as some other thread's child, forked in that
/// moment, has not executed its own program yet.
const BUSY_PAUSES: [Duration; 6] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(15),
    Duration::from_millis(40),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

fn wait_or_stop(pause: Duration, listener: &Listener) -> Result<(), Failure> {
    listener.wait(pause);
    if listener.is_cancelled() { Err(Failure::Cancelled(Left::default())) } else { Ok(()) }
}

fn check_identity(invocation: &Invocation) -> Result<(), Failure> {
    let Some(file_id) = invocation.file_id else {
        return Ok(());
    };
    match FileId::read(&invocation.program) {
        Ok(now) if now == file_id => Ok(()),
        Ok(_) => Err(Failure::Changed),
        Err(error) => Err(unreadable(error)),
    }
}

/// The program's ends of the pipes.
struct Theirs {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: Option<OwnedFd>,
}

fn pipes(invocation: &Invocation) -> rustix::io::Result<(Pipes, Theirs)> {
    let (our_stdin, their_stdin) = match &invocation.stdin {
        Stdin::Terminal if invocation.attended => (None, None),
        Stdin::Request(_) => {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            (Some(unblocked(write)?), Some(high(read)?))
        }
        Stdin::Closed | Stdin::Terminal => {
            let null =
                rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            (None, Some(high(null)?))
        }
    };
    let (our_stdout, their_stdout) = output()?;
    let (our_stderr, their_stderr) = match &invocation.stderr {
        Stderr::Shown => (None, None),
        Stderr::Kept | Stderr::Sink(_) => {
            let (ours, theirs) = output()?;
            (Some(ours), Some(theirs))
        }
    };
    let ours = Pipes { stdin: our_stdin, stdout: our_stdout, stderr: our_stderr };
    let theirs = Theirs { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
    Ok((ours, theirs))
}

fn output() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((unblocked(read)?, high(write)?))
}

/// Not blocking for us. The other end of a pipe is another file description and stays as programs
/// expect it.
fn unblocked(end: OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::fs::fcntl_setfl(&end, OFlags::NONBLOCK)?;
    Ok(end)
}

/// Above the three standard descriptors: one that lies among them (because we were started without
/// them) would be overwritten on the way into the program.
fn high(end: OwnedFd) -> rustix::io::Result<OwnedFd> {
    const FIRST: i32 = 3;
    if end.as_raw_fd() >= FIRST {
        return Ok(end);
    }
    rustix::io::fcntl_dupfd_cloexec(&end, FIRST)
}

impl Theirs {
    fn actions(&self) -> nix::Result<PosixSpawnFileActions> {
        let mut actions = PosixSpawnFileActions::init()?;
        if let Some(stdin) = &self.stdin {
            actions.add_dup2(stdin.as_raw_fd(), 0)?;
        }
        actions.add_dup2(self.stdout.as_raw_fd(), 1)?;
        if let Some(stderr) = &self.stderr {
            actions.add_dup2(stderr.as_raw_fd(), 2)?;
        }
        Ok(actions)
    }
}

/// Signals as a program expects them: none blocked, a broken pipe fatal (Rust programs ignore it),
/// and with a person at the terminal Ctrl-C too, even if we have other plans for it ourselves.
/// Unattended, a session of its own.
fn attributes(invocation: &Invocation) -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    let mut flags =
        PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    if !invocation.attended {
        flags |= own_session();
    }
    attributes.set_flags(flags)?;
    let mut default = SigSet::empty();
    default.add(Signal::SIGPIPE);
    if invocation.attended {
        default.add(Signal::SIGINT);
        default.add(Signal::SIGQUIT);
    }
    attributes.set_sigdefault(&default)?;
    attributes.set_sigmask(&SigSet::empty())?;
    Ok(attributes)
}

/// `POSIX_SPAWN_SETSID`, which the bindings do not name. Where the system does not know it, a
/// process group of its own has to do.
fn own_session() -> PosixSpawnFlags {
    if cfg!(target_os = "linux") {
        PosixSpawnFlags::from_bits_retain(0x80)
    } else if cfg!(target_vendor = "apple") {
        PosixSpawnFlags::from_bits_retain(0x400)
    } else {
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
    }
}

/// What the program is given, in the form the system takes.
struct Strings {
    program: CString,
    args: Vec<Zeroizing<CString>>,
    env: Vec<Zeroizing<CString>>,
}

impl Strings {
    fn new(invocation: &Invocation) -> Result<Self, Failure> {
        let args = std::iter::once(&invocation.name).chain(&invocation.args);
        Ok(Self {
            program: terminated(invocation.program.as_os_str().as_bytes())?,
            args: args
                .map(|arg| terminated(arg.as_bytes()).map(Zeroizing::new))
                .collect::<Result<_, _>>()?,
            env: environment(invocation)?,
        })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts programs")]
    fn spawn(
        &self,
        actions: &PosixSpawnFileActions,
        attributes: &PosixSpawnAttr,
    ) -> Result<Pid, Errno> {
        let pid = posix_spawn(self.program.as_c_str(), actions, attributes, &self.args, &self.env)
            .map_err(|errno| Errno::from_raw_os_error(errno as i32))?;
        Pid::from_raw(pid.as_raw()).ok_or(Errno::CHILD)
    }
}

/// `NAME=value`, the last of a name winning, otherwise in order.
fn environment(invocation: &Invocation) -> Result<Vec<Zeroizing<CString>>, Failure> {
    let variables = merge(invocation.env.iter().collect(), |(name, value)| (name, value));
    let text = |(name, value): &(OsString, OsString)| {
        // Room for the end as well, so that the text is not copied again.
        let mut text = Vec::with_capacity(name.len() + value.len() + 2);
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        text.extend_from_slice(value.as_bytes());
        terminated(text).map(Zeroizing::new)
    };
    variables.into_iter().map(text).collect()
}

/// Text with its NUL at the end. None is inside: `argument_sizes::check` refuses that.
fn terminated(text: impl Into<Vec<u8>>) -> Result<CString, Failure> {
    CString::new(text).map_err(|error| Failure::Start(error.into()))
}

/// The reason behind the system's error number.
fn explain(errno: Errno, invocation: &Invocation) -> Failure {
    let program = &invocation.program;
    match errno {
        Errno::NOENT => match std::fs::metadata(program) {
            Ok(_) => Failure::Interpreter(
                trust::interpreter(program).map(|path| path.display().to_string()),
            ),
            Err(_) => Failure::NotFound,
        },
        Errno::NOTDIR => Failure::NotFound,
        Errno::ACCESS | Errno::ISDIR if program.is_dir() => Failure::Directory,
        Errno::ACCESS | Errno::PERM => Failure::Denied,
        Errno::NOEXEC => Failure::Format,
        Errno::TOOBIG => argument_sizes::too_big(invocation),
        Errno::NOMEM | Errno::AGAIN | Errno::MFILE | Errno::NFILE => Failure::System(errno.into()),
        _ => Failure::Start(errno.into()),
    }
}

fn unreadable(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::NotFound,
        io::ErrorKind::PermissionDenied => Failure::Denied,
        _ => Failure::Start(error),
    }
}

fn nix_failure(errno: nix::Error) -> Failure {
    Failure::System(errno.into())
}
