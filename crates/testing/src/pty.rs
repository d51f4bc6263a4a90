//! A real terminal for tests: a pseudo-terminal with a program in the foreground of it.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize},
};

use crate::terminal;

/// How long anything may take before the test is called hung. No test is meant to come near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that has this terminal as its controlling one, and the person in front of it.
///
/// The program is killed when this is dropped before it ended.
pub struct Pty {
    master: File,
    /// Our own hold on the terminal, so that it outlives the program and can be looked at.
    terminal: OwnedFd,
    child: Child,
    seen: Vec<u8>,
    /// How much of `seen` earlier calls of [`Pty::wait_for`] have used up.
    read: usize,
}

impl Pty {
    /// Starts the program, its arguments, variables and directory taken from `command`, in a session
    /// of its own with a new terminal on its stdin, stdout and stderr. (A cleared environment
    /// cannot be seen in a `Command`: let `env -i` do that.)
    ///
    /// # Errors
    ///
    /// When there is no free terminal or no `setsid` program.
    #[expect(clippy::disallowed_methods, reason = "a test's own start, outside of the product")]
    pub fn spawn(command: &Command) -> io::Result<Self> {
        let (master, terminal) = terminal::open()?;

        // Taking a controlling terminal must happen between fork and exec, which safe Rust cannot
        // do; util-linux can.
        let mut child = Command::new("setsid");
        child.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => child.env(name, value),
                None => child.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            child.current_dir(folder);
        }
        child.stdin(terminal.try_clone()?);
        child.stdout(terminal.try_clone()?);
        child.stderr(terminal.try_clone()?);
        let child = child.spawn()?;
        Ok(Self { master: master.into(), terminal, child, seen: Vec::new(), read: 0 })
    }

    /// Reads until `text` appears after what earlier calls have waited for.
    ///
    /// # Panics
    ///
    /// When the program ends, or a minute passes, without it.
    pub fn wait_for(&mut self, text: &str) {
        let started = now();
        loop {
            if let Some(at) = find(&self.seen[self.read..], text.as_bytes()) {
                self.read += at + text.len();
                return;
            }
            let over = matches!(self.child.try_wait(), Ok(Some(_)));
            let more = self.listen(Duration::from_millis(100));
            assert!(more || !over, "the program ended before `{text}`:\n{}", self.screen());
            assert!(started.elapsed() < PATIENCE, "no `{text}` came:\n{}", self.screen());
        }
    }

    /// Types these bytes: `"yes\n"`, or `"\x03"` for Ctrl-C.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn type_in(&mut self, keys: &str) -> io::Result<()> {
        self.master.write_all(keys.as_bytes())
    }

    /// Gives the terminal a new size; the program is told by a signal.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    /// Whether the terminal shows what is typed.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn echoes(&self) -> io::Result<bool> {
        Ok(self.state()?.local_modes.contains(LocalModes::ECHO))
    }

    /// The state of the terminal, to compare before and after.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub fn state(&self) -> io::Result<Termios> {
        Ok(tcgetattr(&self.terminal)?)
    }

    /// Process id of the program.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything the terminal has shown so far.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits for the end of the program and reads the rest of what it showed.
    ///
    /// # Panics
    ///
    /// When a minute passes first.
    pub fn finish(&mut self) -> ExitStatus {
        let started = now();
        loop {
            // Asked before reading: what was written before the end is then read for sure.
            let status = self.child.try_wait().unwrap_or_default();
            let more = self.listen(Duration::from_millis(if status.is_some() { 0 } else { 100 }));
            if let (Some(status), false) = (status, more) {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it did not end:\n{}", self.screen());
        }
    }

    /// Reads what is there, waiting at most this long for the first byte.
    fn listen(&mut self, wait: Duration) -> bool {
        let limit = Timespec::try_from(wait).unwrap_or_default();
        let mut waiting = [PollFd::new(&self.master, PollFlags::IN)];
        let ready = poll(&mut waiting, Some(&limit)).unwrap_or(0) > 0;
        let mut chunk = [0; 4096];
        match ready.then(|| self.master.read(&mut chunk)) {
            Some(Ok(n)) if n > 0 => self.seen.extend_from_slice(&chunk[..n]),
            _ => return false,
        }
        true
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Both do nothing for a program that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a guard against tests that hang")]
fn now() -> Instant {
    Instant::now()
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]

    use std::process::Command;

    use super::Pty;

    #[test]
    fn a_person_answers_a_hidden_question() {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(
            "stty -echo; printf 'password: '; read -r answer; stty echo; echo \"got $answer\"; exit 7",
        );
        let mut pty = Pty::spawn(&shell).unwrap();
        pty.wait_for("password: ");
        assert!(!pty.echoes().unwrap());
        pty.type_in("hunter2\n").unwrap();
        pty.wait_for("got hunter2");
        assert_eq!(pty.finish().code(), Some(7));
        assert!(pty.echoes().unwrap());
        assert_eq!(pty.screen().matches("hunter2").count(), 1, "{}", pty.screen());
    }

    #[test]
    fn ctrl_c_reaches_the_program() {
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg("trap 'echo interrupted; exit 9' INT; echo ready; while :; do read -r x; done");
        let mut pty = Pty::spawn(&shell).unwrap();
        pty.wait_for("ready");
        pty.type_in("\x03").unwrap();
        pty.wait_for("interrupted");
        assert_eq!(pty.finish().code(), Some(9));
    }
}
