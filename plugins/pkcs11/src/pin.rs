//! When a PIN may be tried, and where it comes from.
//!
//! A token locks itself after a few wrong PINs, for good or until an administrator helps. So a PIN
//! from a file is tried once: when the token says that the last try failed, only a person's own
//! typing may be the next one, and the last try of all is nobody's here.

use std::{io, os::unix::fs::MetadataExt, path::Path};

use keyward_plugin::{Refusal, Secret, Terminal};
use keyward_process::file::{self, Limits};

use crate::{module::Token, target::Stored};

/// What a token says about its PIN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the token's flags")]
pub(crate) struct State {
    /// Without a PIN the keys cannot be used.
    pub(crate) required: bool,
    /// The PIN is typed on the token or its reader.
    pub(crate) pad: bool,
    /// The last try, at least, was wrong.
    pub(crate) low: bool,
    /// One more wrong try locks it.
    pub(crate) last: bool,
    /// The PIN is locked.
    pub(crate) locked: bool,
}

/// How a PIN would be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the configuration or a file.
    Stored,
    /// By a person, at the terminal or on the reader.
    Typed,
}

/// What to do about a stored PIN that is not tried.
const CORRECT: &str = "correct the stored PIN, then log in once by typing it at a terminal";

impl State {
    /// Whether a PIN may be tried in this way. The refusal says why not, and what to do.
    pub(crate) fn permit(self, way: Way, token: &str) -> Result<(), Refusal> {
        let why = if self.locked {
            format!(
                "the PIN of token `{token}` is locked\n\n\
                 hint: its security officer can set a new one, with the PUK or SO PIN"
            )
        } else if self.last {
            format!(
                "one more wrong PIN locks token `{token}`, so none is tried from here\n\n\
                 hint: log in once with the tool that came with it (or `pkcs11-tool --login`): a \
                 right PIN there gives it all its tries back"
            )
        } else if self.low && way == Way::Stored {
            format!(
                "token `{token}` says that the last PIN was wrong, so the stored one is not tried\n\n\
                 hint: {CORRECT}"
            )
        } else {
            return Ok(());
        };
        Err(Refusal::NotAllowed(why))
    }
}

impl Stored {
    /// The PIN. A file has to belong to the user, and nobody else may read it.
    pub(crate) fn read(&self) -> Result<Secret, Refusal> {
        match self {
            Self::Value(pin) => Ok(pin.clone()),
            Self::File(path) => read_file(path),
        }
    }

    /// Where it is, for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Value(_) => "in the configuration".to_owned(),
            Self::File(path) => format!("in `{}`", path.display()),
        }
    }
}

/// The longest PIN we read; no token takes one that long.
const LONGEST: u64 = 1024;

fn read_file(path: &Path) -> Result<Secret, Refusal> {
    let shown = path.display();
    let fault =
        |why: String| Refusal::BadConfig(format!("cannot read the PIN in `{shown}`: {why}"));
    let file = file::open(path).map_err(|e| fault(e.to_string()))?;
    let meta = file.metadata().map_err(|e| fault(e.to_string()))?;
    let user = rustix::process::geteuid().as_raw();
    if !meta.is_file() {
        return Err(fault("it is not a file".to_owned()));
    }
    if meta.uid() != user && meta.uid() != 0 {
        return Err(fault("it belongs to somebody else".to_owned()));
    }
    if meta.mode() & 0o077 != 0 {
        let mode = meta.mode() & 0o777;
        return Err(fault(format!(
            "others may read it (mode {mode:03o})\n\nhint: `chmod 600 {shown}`"
        )));
    }
    let limits = Limits::NAMED.regular().at_most(LONGEST);
    let bytes = file::read_open(&file, &limits).map_err(|e| match e.kind() {
        io::ErrorKind::FileTooLarge => fault("it is longer than any PIN".to_owned()),
        _ => fault(e.to_string()),
    })?;
    let text = str::from_utf8(&bytes).map_err(|_| fault("it is no text".to_owned()))?;
    let pin = text.trim_end_matches(['\r', '\n']);
    if pin.is_empty() {
        return Err(fault("it is empty".to_owned()));
    }
    Ok(Secret::new(pin))
}

/// Asks the person at the controlling terminal, never on stdin. `why` is said first.
pub(crate) fn ask(token: &Token, why: Option<&str>) -> Result<Secret, Refusal> {
    let mut terminal = Terminal::controlling().map_err(|refusal| match refusal {
        Refusal::NeedsTerminal(_) => {
            let reason = why.map(|why| format!("{why}; ")).unwrap_or_default();
            // Only a stored PIN that is not tried is a reason, so another file would not help.
            let hint = match why {
                Some(_) => CORRECT,
                None => "run the command at a terminal, or name a file with `pin-source`",
            };
            Refusal::NeedsTerminal(format!(
                "{reason}the PIN of token `{}` must be typed, and there is no terminal\n\n\
                 hint: {hint}",
                token.label
            ))
        }
        other => other,
    })?;
    if let Some(why) = why {
        terminal.say(why)?;
    }
    let pin = terminal.ask_hidden(&format!("PIN of token `{}`: ", token.label))?;
    if pin.is_empty() {
        return Err(Refusal::Interrupted);
    }
    Ok(pin)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_stored_pin_is_not_tried_after_a_wrong_one_and_a_typed_one_is() {
        let low = State { low: true, ..State::default() };
        let refusal = low.permit(Way::Stored, "lab").unwrap_err().to_string();
        assert!(refusal.contains("last PIN was wrong"), "{refusal}");
        low.permit(Way::Typed, "lab").unwrap();
    }

    #[test]
    fn nobody_gets_the_last_try_or_a_locked_token() {
        for way in [Way::Stored, Way::Typed] {
            let last = State { low: true, last: true, ..State::default() };
            let refusal = last.permit(way, "lab").unwrap_err().to_string();
            assert!(refusal.contains("one more wrong PIN locks token `lab`"), "{refusal}");
            let locked = State { low: true, last: true, locked: true, ..State::default() };
            let refusal = locked.permit(way, "lab").unwrap_err().to_string();
            assert!(refusal.contains("is locked"), "{refusal}");
            State::default().permit(way, "lab").unwrap();
        }
    }

    #[test]
    fn a_pin_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pin");
        let stored = Stored::File(path.clone());
        let set = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set("marked\n", 0o600);
        assert_eq!(stored.read().unwrap().expose(), "marked");
        for mode in [0o640, 0o604, 0o620] {
            set("marked\n", mode);
            let message = stored.read().unwrap_err().to_string();
            assert!(message.contains("others may read it"), "{message}");
            assert!(!message.contains("marked"));
        }
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let message = Stored::File(pipe).read().unwrap_err().to_string();
        assert!(message.contains("it is not a file"), "{message}");
        set("\n", 0o600);
        assert!(stored.read().unwrap_err().to_string().contains("empty"));
        set(&"9".repeat(2000), 0o600);
        assert!(stored.read().unwrap_err().to_string().contains("longer"));
    }
}
