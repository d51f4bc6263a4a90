//! Output: data to stdout, messages to stderr.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, IsTerminal, Write},
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use clap::ValueEnum;
use keyward_host::{Target, kubeconfig::Place, redact::redact};
use keyward_image::Severity;
use keyward_protocol::text;
pub(crate) use keyward_protocol::text::{block, inline};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

use crate::{failure::Failure, globals::Globals};

/// The `-o` of a command that prints.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Output {
    /// How to print it
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "text")]
    pub(crate) format: Format,
}

/// The output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// For programs; docs/cli.md has the schema
    Json,
}

impl Output {
    /// Prints data in the chosen format.
    pub(crate) fn print(
        &self,
        data: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        print(&self.layout(data, text)?)
    }

    /// Prints data in the chosen format. Nothing in it should be secret, but a program or a server may
    /// have repeated a secret.
    pub(crate) fn print_redacted(
        &self,
        data: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        print(&redact(&self.layout(data, text)?))
    }

    fn layout(
        &self,
        data: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<String, Failure> {
        match self.format {
            Format::Json => json(data),
            Format::Text => Ok(text()),
        }
    }
}

/// Writes data to stdout, all of it or an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to stdout at once, all of them or an error.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Writes data to stdout as indented JSON with a final line break.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}

/// Data as indented JSON with a final line break.
fn json(value: &impl Serialize) -> Result<String, Failure> {
    let mut json = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    json.push('\n');
    Ok(text::escape_json(&json))
}

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// For a single document.
    Indented,
    /// For one of many documents.
    Line,
}

/// Writes data with secrets to stdout as JSON with a final line break. Our copy is wiped.
pub(crate) fn print_secret(value: &impl Serialize, width: Width) -> Result<(), Failure> {
    let mut text = Zeroizing::new(Vec::new());
    let done = match width {
        Width::Indented => serde_json::to_writer_pretty(&mut *text, value),
        Width::Line => serde_json::to_writer(&mut *text, value),
    };
    done.map_err(io::Error::from)?;
    text.push(b'\n');
    print_bytes(&text)
}

/// A value in JSON as it is in text, for `serialize_with`.
pub(crate) fn as_shown<S: Serializer>(value: &impl Display, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(value)
}

/// A pipe that is ready for writing has room for this many bytes.
const PIPE: usize = 4096;

/// Whether messages that nobody reads are dropped rather than waited for.
static LOSSY: AtomicBool = AtomicBool::new(false);

/// Messages dropped since the last one that was written.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Never blocks on messages from now on. For a program that serves others: it must not stop because
/// the program that started it does not read its stderr.
pub(crate) fn never_wait() {
    LOSSY.store(true, Ordering::Relaxed);
}

/// Writes a message to stderr. If that fails, nobody can be told.
pub(crate) fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    if !LOSSY.load(Ordering::Relaxed) {
        let _ = stderr.write_all(text.as_bytes());
        return;
    }
    if !has_room(&stderr) {
        LOST.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let lost = LOST.swap(0, Ordering::Relaxed);
    let text = match lost {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(format!("({lost} unread messages were dropped)\n{text}")),
    };
    let _ = stderr.write_all(&text.as_bytes()[..text.len().min(PIPE)]);
}

/// Whether stderr accepts a message without blocking.
fn has_room(stderr: &io::StderrLock<'_>) -> bool {
    let mut asked = [PollFd::new(stderr, PollFlags::OUT)];
    match poll(&mut asked, Some(&Timespec::default())) {
        Ok(ready) => ready > 0,
        Err(Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Quotes a text for a shell.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@=".contains(c);
    if !text.starts_with('=') && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A number with its noun: `1 run`, `3 runs`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Names in quotes, with commas between them.
pub(crate) fn list<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted = |name: T| format!("`{}`", inline(name.as_ref()));
    names.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// A path on one line, for messages.
pub(crate) fn path(path: &Path) -> String {
    inline(&path.display().to_string())
}

/// Names the user of a target and its position, for messages.
pub(crate) fn user(target: &Target) -> String {
    let user = match target.user.name.as_str() {
        "" => "no user".to_owned(),
        name => format!("user `{}`", inline(name)),
    };
    match &target.user.place {
        Place { file: None, .. } => user,
        Place { file: Some(file), line } => format!("{user} in `{}`, line {line}", file.display()),
    }
}

/// The look of messages: plain, or with colours that carry no meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// No colours at all.
    pub(crate) const fn plain() -> Self {
        Self { colour: false }
    }

    /// The style for stderr.
    pub(crate) fn of_stderr(globals: &Globals) -> Self {
        Self { colour: globals.colour() && io::stderr().is_terminal() }
    }

    /// The style for stdout.
    pub(crate) fn of_stdout(globals: &Globals) -> Self {
        Self { colour: globals.colour() && io::stdout().is_terminal() }
    }

    /// The word before a message.
    pub(crate) fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// The word before a warning.
    pub(crate) fn warning(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    /// The word before a hint.
    pub(crate) fn hint(self, text: &str) -> String {
        self.wrap("1;36", text)
    }

    /// The word before a finding.
    pub(crate) fn severity(self, severity: Severity) -> String {
        let word = format!("{severity}:");
        match severity {
            Severity::Error => self.error(&word),
            Severity::Warning => self.warning(&word),
            Severity::Note => self.label(&word),
        }
    }

    /// A label or heading.
    pub(crate) fn label(self, text: &str) -> String {
        self.wrap("1", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
