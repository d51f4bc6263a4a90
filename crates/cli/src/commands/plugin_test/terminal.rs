//! A terminal with the plugin in the foreground, and a simulated person who types prepared lines.

use std::{ffi::OsString, path::Path, time::Duration};

use zeroize::Zeroizing;

#[cfg(not(unix))]
pub(super) use self::other::{become_on, visit};
#[cfg(unix)]
pub(super) use self::unix::{become_on, visit};

use super::{answer::Given, run::Run};
use crate::failure::Failure;

/// The simulated person at the terminal.
#[derive(Clone, Copy)]
pub(super) struct Person<'a> {
    /// What the person types, one line per prompt.
    pub(super) lines: &'a [Zeroizing<String>],
    /// How long the person looks at a prompt without an answer before pressing Ctrl-C.
    pub(super) patience: Duration,
}

impl Person<'_> {
    /// Never presses a key.
    pub(super) const NOBODY: Self = Person { lines: &[], patience: Duration::MAX };
}

/// A run at a terminal.
pub(super) struct Visit {
    pub(super) run: Run<Given>,
    /// The plugin waited for keys that nobody pressed.
    pub(super) waited: bool,
    /// The terminal's modes were the same before and after.
    pub(super) restored: bool,
}

#[cfg(unix)]
mod unix {
    use std::{
        env,
        fs::File,
        io,
        io::{Read, Write},
        os::unix::process::CommandExt,
        process::Command,
        sync::mpsc,
        thread,
        time::Duration,
    };

    use keyward_process::runner::{self, Cancel, Invocation};
    use keyward_protocol::exec::REQUEST_VARIABLE;
    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        fs::{Mode, OFlags},
        io::Errno,
        process::ioctl_tiocsctty,
        pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
        stdio::{dup2_stderr, dup2_stdin},
        termios::{Termios, tcgetattr},
    };
    use zeroize::Zeroizing;

    use super::{Failure, OsString, Path, Person, Run, Visit};
    use crate::commands::plugin_test::{question::Question, run::Plugin};

    /// How long a prompt must be idle before keys are pressed.
    const QUIET: Duration = Duration::from_millis(300);
    /// Without a prompt the plugin may just be slow.
    const LONG_QUIET: Duration = Duration::from_secs(5);
    /// How often the screen is read.
    const TICK: Duration = Duration::from_millis(20);
    const CTRL_C: &[u8] = &[3];

    /// Asks the plugin at a terminal of its own, with a person or without.
    pub(in super::super) fn visit(
        plugin: &Plugin,
        question: &Question,
        budget: Duration,
        person: Person<'_>,
    ) -> io::Result<Visit> {
        let mut seat = Seat::take()?;
        let invocation = seat.invocation(plugin, question, budget)?;
        let before = tcgetattr(&seat.terminal)?;
        let stop = Cancel::default();
        let (sender, ended) = mpsc::channel();
        let (result, screen, waited) = thread::scope(|scope| {
            scope.spawn(|| sender.send(runner::run(&invocation, &stop)));
            seat.attend(&ended, person)
        })?;
        let after = tcgetattr(&seat.terminal)?;
        let run = Run::on_terminal(question, result, screen);
        Ok(Visit { run, waited, restored: same(&before, &after) })
    }

    /// A free terminal.
    struct Seat {
        /// The person's side.
        master: File,
        /// Our own descriptor of the plugin's side, to read its modes at the end.
        terminal: File,
        path: OsString,
    }

    impl Seat {
        fn take() -> io::Result<Self> {
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
            grantpt(&master)?;
            unlockpt(&master)?;
            let name = ptsname(&master, Vec::new())?;
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            let terminal = rustix::fs::open(&name, flags, Mode::empty())?;
            let path = name.to_string_lossy().into_owned().into();
            Ok(Self { master: master.into(), terminal: terminal.into(), path })
        }

        /// Giving the plugin a terminal directly would need unsafe code between fork and exec, so a
        /// copy of this program takes the terminal and becomes the plugin.
        fn invocation(
            &self,
            plugin: &Plugin,
            question: &Question,
            budget: Duration,
        ) -> io::Result<Invocation> {
            let mut args: Vec<OsString> =
                ["plugin", "test", "--on-terminal"].map(OsString::from).to_vec();
            args.extend([self.path.clone(), "--".into(), plugin.program.clone().into()]);
            args.extend(plugin.args.iter().cloned());
            Ok(Invocation {
                program: env::current_exe()?,
                args,
                budget,
                ..plugin.invocation(REQUEST_VARIABLE, question.text.as_deref())
            })
        }

        /// Reads the screen and types, until the run has ended.
        fn attend(
            &mut self,
            ended: &mpsc::Receiver<Result<runner::Output, runner::Failure>>,
            person: Person<'_>,
        ) -> io::Result<Attended> {
            let mut lines = person.lines.iter();
            let mut screen = Zeroizing::new(Vec::new());
            let mut waited = false;
            let mut quiet = Duration::ZERO;
            // How much was on the screen when keys were last pressed.
            let mut seen = 0;
            loop {
                if let Ok(result) = ended.try_recv() {
                    while self.listen(&mut screen, Duration::ZERO)? {}
                    return Ok((result, screen, waited));
                }
                if self.listen(&mut screen, TICK)? {
                    quiet = Duration::ZERO;
                    continue;
                }
                quiet += TICK;
                let prompt = screen.len() > seen && screen.last() != Some(&b'\n');
                if quiet >= if prompt { QUIET } else { LONG_QUIET }
                    && let Some(line) = lines.next()
                {
                    self.master.write_all(line.as_bytes())?;
                    self.master.write_all(b"\r")?;
                } else if quiet >= person.patience && prompt && !waited {
                    waited = true;
                    self.master.write_all(CTRL_C)?;
                } else {
                    continue;
                }
                seen = screen.len();
                quiet = Duration::ZERO;
            }
        }

        /// Appends what has appeared to `screen`, waiting briefly for it.
        fn listen(&mut self, screen: &mut Vec<u8>, wait: Duration) -> io::Result<bool> {
            let limit = Timespec::try_from(wait).map_err(io::Error::other)?;
            let mut waiting = [PollFd::new(&self.master, PollFlags::IN)];
            match poll(&mut waiting, Some(&limit)) {
                Ok(0) | Err(Errno::INTR) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            let mut chunk = Zeroizing::new([0; 4096]);
            let count = self.master.read(&mut *chunk)?;
            screen.extend_from_slice(&chunk[..count]);
            Ok(count > 0)
        }
    }

    type Attended = (Result<runner::Output, runner::Failure>, Zeroizing<Vec<u8>>, bool);

    /// Becomes the command, with this terminal as its controlling terminal on stdin and stderr.
    /// Returns only if that fails. The process must lead a session without a terminal, as an
    /// unattended run does.
    #[expect(clippy::disallowed_methods, reason = "no program is started: this one is replaced")]
    pub(in super::super) fn become_on(path: &Path, command: &[OsString]) -> Failure {
        let prepare = || -> io::Result<()> {
            let terminal = File::options().read(true).write(true).open(path)?;
            ioctl_tiocsctty(&terminal)?;
            dup2_stdin(&terminal)?;
            Ok(dup2_stderr(&terminal)?)
        };
        let error = match (prepare(), command.split_first()) {
            (Ok(()), Some((program, args))) => Command::new(program).args(args).exec(),
            (Err(error), _) => error,
            (_, None) => io::ErrorKind::InvalidInput.into(),
        };
        Failure::failed("the plugin could not be put in front of a terminal")
            .note("because", error.to_string())
    }

    fn same(before: &Termios, after: &Termios) -> bool {
        before.local_modes == after.local_modes
            && before.input_modes == after.input_modes
            && before.output_modes == after.output_modes
    }
}

#[cfg(not(unix))]
mod other {
    use std::{io, time::Duration};

    use super::{Failure, OsString, Path, Person, Visit};
    use crate::commands::plugin_test::{question::Question, run::Plugin};

    pub(in super::super) fn visit(
        _plugin: &Plugin,
        _question: &Question,
        _budget: Duration,
        _person: Person<'_>,
    ) -> io::Result<Visit> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in super::super) fn become_on(_path: &Path, _command: &[OsString]) -> Failure {
        Failure::failed("there are no pseudo-terminals on this system")
    }
}
