use std::io::{self, Read, Write};

use keyward_protocol::Secret;
use zeroize::Zeroizing;

use crate::{Question, Refusal};

/// The longest line a person can type.
const LONGEST_LINE: usize = 4096;

/// A terminal for prompts, if there is one.
///
/// Uses the controlling terminal (`/dev/tty`), so that redirected stdin and stderr do not matter; if that
/// cannot be opened, it reads stdin and prompts on stderr. Never uses stdout, which is for the answer.
pub struct Terminal {
    input: system::Input,
    output: Box<dyn Write>,
}

impl Terminal {
    /// Opens the terminal. Fails with [`Refusal::NeedsTerminal`] if there is none, or the client forbids
    /// prompts.
    pub fn open(question: &Question) -> Result<Self, Refusal> {
        if !question.interactive() {
            return Err(Refusal::NeedsTerminal(
                "a person must log in, and the client forbids prompts: run the command at \
                 a terminal, with `interactiveMode: IfAvailable` or `Always` in the kubeconfig"
                    .into(),
            ));
        }
        system::open().map_err(|e| {
            Refusal::NeedsTerminal(format!("a person must log in, and no terminal opens: {e}"))
        })
    }

    /// Opens only the controlling terminal, for an external signer: its stdin belongs to the client, or is
    /// the manifest that a person pipes into the command.
    pub fn controlling() -> Result<Self, Refusal> {
        system::controlling().map_err(|e| {
            Refusal::NeedsTerminal(format!("a person must be asked, and no terminal opens: {e}"))
        })
    }

    /// Shows a line, such as the address of a login page.
    pub fn say(&mut self, line: &str) -> Result<(), Refusal> {
        writeln!(self.output, "{line}")?;
        Ok(self.output.flush()?)
    }

    /// Asks for a line.
    pub fn ask(&mut self, prompt: &str) -> Result<String, Refusal> {
        self.prompt(prompt)?;
        let mut line = read_line(&mut self.input)?;
        String::from_utf8(std::mem::take(&mut *line)).map_err(|_| not_utf8())
    }

    /// Asks for a line that does not appear on the screen.
    ///
    /// The echo is restored however this ends: with a line, an error, a panic, Ctrl-C or Ctrl-D (which
    /// become [`Refusal::Interrupted`]). Only a signal that kills the process leaves it off; hosts such as
    /// Keyward then restore it.
    pub fn ask_hidden(&mut self, prompt: &str) -> Result<Secret, Refusal> {
        let quiet = system::hush(&self.input)?;
        // Only now: what is typed in answer to the prompt must not be seen.
        self.prompt(prompt)?;
        let line = read_keys(&mut self.input);
        drop(quiet);
        writeln!(self.output)?;
        self.output.flush()?;
        let mut line = line?;
        String::from_utf8(std::mem::take(&mut *line)).map(Secret::new).map_err(|_| not_utf8())
    }

    fn prompt(&mut self, prompt: &str) -> Result<(), Refusal> {
        write!(self.output, "{prompt}")?;
        Ok(self.output.flush()?)
    }
}

/// Reads a line from a terminal in its normal mode.
fn read_line(input: &mut impl Read) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    read_until(input, |_, _| Key::Text)
}

/// Reads keys up to the line break, editing the line as a terminal would.
fn read_keys(input: &mut impl Read) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    read_until(input, |line, byte| match byte {
        CTRL_C => Key::Stop,
        CTRL_D if line.is_empty() => Key::Stop,
        CTRL_D => Key::Nothing,
        BACKSPACE | DELETE => {
            // A character is its first byte and all that continue it.
            while line.pop().is_some_and(|b| b & 0xc0 == 0x80) {}
            Key::Nothing
        }
        CTRL_U => {
            line.clear();
            Key::Nothing
        }
        _ => Key::Text,
    })
}

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_U: u8 = 21;
const DELETE: u8 = 127;

/// The meaning of a typed byte.
enum Key {
    Text,
    Nothing,
    Stop,
}

fn read_until(
    input: &mut impl Read,
    mut meaning: impl FnMut(&mut Vec<u8>, u8) -> Key,
) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    // Room for all of it from the start: growing would leave copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(LONGEST_LINE));
    let mut byte = Zeroizing::new([0]);
    loop {
        match input.read(&mut *byte) {
            Ok(0) => return Err(Refusal::Interrupted),
            Ok(_) if matches!(byte[0], b'\n' | b'\r') => return Ok(line),
            Ok(_) => match meaning(&mut line, byte[0]) {
                Key::Text if line.len() == LONGEST_LINE => {
                    return Err(Refusal::failed("the line is too long"));
                }
                Key::Text => line.push(byte[0]),
                Key::Nothing => {}
                Key::Stop => return Err(Refusal::Interrupted),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn not_utf8() -> Refusal {
    Refusal::failed("what was typed is not UTF-8")
}

#[cfg(unix)]
mod system {
    use std::{
        fs::File,
        io::{self, IsTerminal},
        os::fd::AsFd,
    };

    use rustix::termios::{
        InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
    };

    use super::Terminal;

    /// Where keys come from.
    pub(super) type Input = File;

    pub(super) fn open() -> io::Result<Terminal> {
        match controlling() {
            Err(_) if io::stdin().is_terminal() => Ok(Terminal {
                // A descriptor of our own, because std's stdin reads ahead.
                input: File::from(io::stdin().as_fd().try_clone_to_owned()?),
                output: Box::new(io::stderr()),
            }),
            other => other,
        }
    }

    pub(super) fn controlling() -> io::Result<Terminal> {
        let tty = File::options().read(true).write(true).open("/dev/tty")?;
        Ok(Terminal { input: tty.try_clone()?, output: Box::new(tty) })
    }

    /// Turns off echo, line editing and the keys that send signals, until the guard is dropped.
    pub(super) fn hush(input: &Input) -> io::Result<Quiet> {
        let saved = tcgetattr(input)?;
        let mut modes = saved.clone();
        modes.local_modes.remove(
            LocalModes::ECHO
                | LocalModes::ECHONL
                | LocalModes::ICANON
                | LocalModes::ISIG
                | LocalModes::IEXTEN,
        );
        modes.input_modes.insert(InputModes::ICRNL);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        let quiet = Quiet { terminal: input.try_clone()?, saved };
        tcsetattr(input, OptionalActions::Flush, &modes)?;
        Ok(quiet)
    }

    /// Gives the terminal its modes back.
    pub(super) struct Quiet {
        terminal: File,
        saved: Termios,
    }

    impl Drop for Quiet {
        fn drop(&mut self) {
            // A terminal that is gone needs no repair.
            let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.saved);
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::io::{self, IsTerminal, Stdin};

    use super::Terminal;

    /// Where keys come from.
    pub(super) type Input = Stdin;

    /// Never constructed: see [`hush`].
    pub(super) enum Quiet {}

    pub(super) fn open() -> io::Result<Terminal> {
        if !io::stdin().is_terminal() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(Terminal { input: io::stdin(), output: Box::new(io::stderr()) })
    }

    pub(super) fn controlling() -> io::Result<Terminal> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Hidden input needs the console's modes, which no safe call reaches.
    pub(super) fn hush(_input: &Input) -> io::Result<Quiet> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn keys(bytes: &[u8]) -> Result<String, Refusal> {
        read_keys(&mut &*bytes).map(|line| String::from_utf8(line.to_vec()).unwrap())
    }

    #[test]
    fn keys_edit_the_hidden_line() {
        assert_eq!(keys(b"secret\n").unwrap(), "secret");
        assert_eq!(keys(b"secrex\x7ft\r").unwrap(), "secret");
        assert_eq!(keys("a\u{e9}\u{8}b\n".as_bytes()).unwrap(), "ab");
        assert_eq!(keys(b"wrong\x15right\n").unwrap(), "right");
        assert_eq!(keys(b"\x7f\x7fx\n").unwrap(), "x");
    }

    #[test]
    fn ctrl_c_and_an_ended_input_interrupt() {
        for bytes in [&b"sec\x03ret\n"[..], b"\x04", b"sec"] {
            assert!(matches!(keys(bytes), Err(Refusal::Interrupted)));
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let endless = vec![b'x'; LONGEST_LINE + 1];
        assert!(matches!(keys(&endless), Err(Refusal::Failed(_))));
    }
}
