//! When a PIN may be tried, and where it comes from.
//!
//! A token locks itself after a few wrong PINs, for good or until an administrator helps. So a stored PIN
//! is tried only once: after a failed login only a typed PIN is tried, and the final try of a token is
//! never used.

use std::{io, os::unix::fs::MetadataExt, path::Path};

use keyward_plugin::{Refusal, Secret, Terminal};
use keyward_process::file::{self, Limits};

use crate::{module::Token, target::Stored};

/// What a token reports about its PIN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the token's flags")]
pub(crate) struct PinState {
    /// The keys cannot be used without a PIN.
    pub(crate) required: bool,
    /// The PIN is typed on the token or its reader.
    pub(crate) keypad: bool,
    /// At least the last PIN was wrong.
    pub(crate) last_was_wrong: bool,
    /// One more wrong PIN locks the token.
    pub(crate) final_try: bool,
    /// The PIN is locked.
    pub(crate) locked: bool,
}

/// Where a PIN comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PinSource {
    /// The configuration or a file.
    Stored,
    /// A person, at the terminal or on the reader.
    Typed,
}

/// The hint for a stored PIN that is not tried.
const CORRECT: &str = "correct the stored PIN, then log in once by typing it at a terminal";

impl PinState {
    /// Whether a PIN from this source may be tried. The refusal says why not, and what to do.
    pub(crate) fn permit(self, source: PinSource, token: &str) -> Result<(), Refusal> {
        let why = if self.locked {
            format!(
                "the PIN of token `{token}` is locked\n\n\
                 hint: its security officer can set a new one, with the PUK or SO PIN"
            )
        } else if self.final_try {
            format!(
                "one more wrong PIN locks token `{token}`, so none is tried from here\n\n\
                 hint: log in once with the tool that came with it (or `pkcs11-tool --login`): a \
                 right PIN there gives it all its tries back"
            )
        } else if self.last_was_wrong && source == PinSource::Stored {
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
    /// Reads the PIN. A file must belong to the user and must not be readable by others.
    pub(crate) fn read(&self) -> Result<Secret, Refusal> {
        match self {
            Self::Value(pin) => Ok(pin.clone()),
            Self::File(path) => read_file(path),
        }
    }

    /// Where the PIN is stored, for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Value(_) => "in the configuration".to_owned(),
            Self::File(path) => format!("in `{}`", path.display()),
        }
    }
}

/// The longest PIN to read; no token takes one that long.
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
        return Err(fault("it belongs to another user".to_owned()));
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
    let text = str::from_utf8(&bytes).map_err(|_| fault("it is not valid UTF-8".to_owned()))?;
    let pin = text.trim_end_matches(['\r', '\n']);
    if pin.is_empty() {
        return Err(fault("it is empty".to_owned()));
    }
    Ok(Secret::new(pin))
}

/// Prompts at the controlling terminal, never on stdin. Prints `why` first.
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
        let low = PinState { last_was_wrong: true, ..PinState::default() };
        let refusal = low.permit(PinSource::Stored, "lab").unwrap_err().to_string();
        assert!(refusal.contains("last PIN was wrong"), "{refusal}");
        low.permit(PinSource::Typed, "lab").unwrap();
    }

    #[test]
    fn the_final_try_is_never_used_and_a_locked_token_is_left_alone() {
        for source in [PinSource::Stored, PinSource::Typed] {
            let last = PinState { last_was_wrong: true, final_try: true, ..PinState::default() };
            let refusal = last.permit(source, "lab").unwrap_err().to_string();
            assert!(refusal.contains("one more wrong PIN locks token `lab`"), "{refusal}");
            let locked = PinState {
                last_was_wrong: true,
                final_try: true,
                locked: true,
                ..PinState::default()
            };
            let refusal = locked.permit(source, "lab").unwrap_err().to_string();
            assert!(refusal.contains("is locked"), "{refusal}");
            PinState::default().permit(source, "lab").unwrap();
        }
    }

    #[test]
    fn a_pin_file_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pin");
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
        let pipe = directory.path().join("pipe");
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
