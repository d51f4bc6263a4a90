//! Why a command failed, and how that is reported.

use std::{borrow::Cow, fmt::Display, io, process::ExitCode};

use keyward_host::{Error, Kind, redact::redact};
use keyward_process::harden::TooFewDescriptors;
use keyward_protocol::text::causes;
use serde::Serialize;

use crate::{globals::Globals, output, signals};

/// The label of what a server wrote. `doctor --redact` leaves it out, because it may name anything.
pub(crate) const SERVER_SAID: &str = "it said";

/// The failure of a command. Becomes a message on stderr and an exit code.
#[derive(Debug)]
pub(crate) struct Failure(Box<Inner>);

#[derive(Debug, Default)]
struct Inner {
    code: Code,
    message: String,
    notes: Vec<(Cow<'static, str>, String)>,
    hint: Option<String>,
    stderr: Option<String>,
    /// The reader of stdout went away: nothing to report, and not our fault.
    quiet: bool,
    /// A retry later may work.
    passing: bool,
    /// The host's error, if it is one.
    cause: Option<Error>,
}

/// A failure in the parts that its message has, redacted, for output in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Description {
    pub(crate) message: String,
    pub(crate) notes: Vec<Note>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// A labelled fact.
#[derive(Debug, Serialize)]
pub(crate) struct Note {
    pub(crate) label: String,
    pub(crate) text: String,
}

/// The exit codes of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Code {
    #[default]
    Failed = 1,
    Usage = 2,
    NeedsTerminal = 3,
    NotAllowed = 4,
    /// The shell's codes for a command that cannot be run, and for one that does not exist.
    NotRun = 126,
    NotFound = 127,
}

impl From<TooFewDescriptors> for Failure {
    fn from(too_few: TooFewDescriptors) -> Self {
        Self::failed(too_few.to_string()).hint("raise the limit, for example with `ulimit -n 1024`")
    }
}

impl Failure {
    /// A command that was tried and failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, message)
    }

    /// A command that cannot be tried as given.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// Returns the function that makes a failure of its cause, for `map_err`.
    pub(crate) fn of<E: Display>(message: impl Display) -> impl Fn(E) -> Self {
        move |cause| Self::failed(message.to_string()).note("cause", cause.to_string())
    }

    /// A failure with this exit code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, message: message.into(), ..Inner::default() }))
    }

    /// Adds a labelled fact.
    pub(crate) fn note(
        mut self,
        label: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
    ) -> Self {
        self.0.notes.push((label.into(), text.into()));
        self
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets whether a retry later may work, with nothing changed here.
    pub(crate) fn passing(mut self, passing: bool) -> Self {
        self.0.passing = passing;
        self
    }

    /// Whether a retry later may work.
    pub(crate) fn may_pass(&self) -> bool {
        self.0.passing
    }

    /// Adds what the plugin wrote to its stderr.
    pub(crate) fn quoting(mut self, stderr: &[u8]) -> Self {
        self.0.stderr = Some(String::from_utf8_lossy(stderr).into_owned());
        self
    }

    /// What happened, in one line.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The labelled facts, in order.
    pub(crate) fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.notes.iter().map(|(label, text)| (label.as_ref(), text.as_str()))
    }

    /// What to do next.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// What the plugin wrote to its stderr.
    pub(crate) fn said(&self) -> Option<&str> {
        self.0.stderr.as_deref()
    }

    /// The host's error that this failure reports.
    pub(crate) fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }

    /// The exit code of this failure.
    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// The message in parts.
    pub(crate) fn describe(&self) -> Description {
        let shown = |text: &str| redact(text).into_owned();
        let note = |(label, text): (&str, &str)| Note { label: label.into(), text: shown(text) };
        Description {
            message: shown(self.message()),
            notes: self.notes().map(note).collect(),
            hint: self.advice().map(shown),
        }
    }

    /// Prints the message to stderr, with secrets redacted, and returns the exit code.
    pub(crate) fn report(&self, globals: &Globals) -> ExitCode {
        if self.0.quiet {
            return ExitCode::SUCCESS;
        }
        signals::leave_if_interrupted();
        let style = output::Style::of_stderr(globals);
        output::tell(&redact(&self.layout(style)));
        ExitCode::from(self.0.code as u8)
    }

    fn layout(&self, style: output::Style) -> String {
        // Most texts were cleaned where they were made; this makes sure of the rest.
        let mut lines =
            vec![format!("{} {}", style.error("error:"), output::inline(&self.0.message))];
        for (label, note) in self.notes() {
            lines.push(format!("  {label}: {}", output::block(note).replace('\n', "\n    ")));
        }
        if let Some(stderr) = self.0.stderr.as_deref().filter(|text| !text.trim().is_empty()) {
            // The last lines matter most, and the error above them must stay visible.
            let said: Vec<&str> = stderr.trim_end().lines().collect();
            let left_out = said.len().saturating_sub(MOST_SAID);
            lines.push(match left_out {
                0 => "  the plugin said:".to_owned(),
                count => format!("  the plugin said, after {count} lines that are left out:"),
            });
            let said = &said[left_out..];
            lines.extend(said.iter().map(|line| format!("    {}", output::inline(line))));
        }
        if let Some(hint) = &self.0.hint {
            lines.push(format!("\n{} {}", style.hint("hint:"), output::block(hint)));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// How many lines of a plugin are shown.
const MOST_SAID: usize = 40;

/// Each error of the chain describes only its own part, so each gets a line.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::NeedsTerminal => Code::NeedsTerminal,
            Kind::NotAllowed => Code::NotAllowed,
            _ => Code::Failed,
        };
        let mut failure = Self::new(code, error.to_string());
        for cause in causes(&error) {
            failure = failure.note(Error::CAUSE, cause.to_string());
        }
        for (label, text) in error.notes() {
            failure = failure.note(*label, text);
        }
        let patience = "`--plugin-timeout` says how long a plugin may take";
        let usual = (error.kind() == Kind::TimedOut).then_some(patience);
        failure.0.hint = error.hint().or(usual).map(str::to_owned);
        // What a person has already seen is not repeated.
        let new = error.stderr().filter(|_| !error.stderr_shown());
        failure.0.stderr = new.map(str::to_owned);
        failure.0.cause = Some(error);
        failure
    }
}

/// Errors of writing to stdout: the program writes to nothing else.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        let mut failure = Self::of("stdout could not be written")(error);
        failure.0.quiet = quiet;
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;
    use crate::output::Style;

    #[test]
    fn nothing_of_a_stranger_writes_over_a_line_or_begins_one() {
        let evil = "x\rerror: y\u{1b}[2K";
        let mut failure = Failure::failed(format!("{evil}\nhint: z"))
            .note("needed by", format!("{evil}\nhint: z"))
            .hint(evil);
        failure.0.stderr = Some(format!("{evil}\n"));
        assert_eq!(
            failure.layout(Style::plain()),
            "error: x error: yU+001B[2K hint: z\n\
             \x20 needed by: x error: yU+001B[2K\n\
             \x20   hint: z\n\
             \x20 the plugin said:\n\
             \x20   x error: yU+001B[2K\n\
             \n\
             hint: x error: yU+001B[2K\n"
        );
    }

    #[test]
    fn a_plugin_that_talks_without_end_does_not_push_the_error_away() {
        let mut failure = Failure::failed("plugin `p` failed");
        failure.0.stderr = Some("line\n".repeat(999) + "the last\n");
        let text = failure.layout(Style::plain());
        assert_eq!(text.lines().count(), 42, "{text}");
        assert!(text.contains("  the plugin said, after 960 lines that are left out:\n"), "{text}");
        assert!(text.ends_with("    line\n    the last\n"), "{text}");
    }

    #[test]
    fn the_layout_is_message_then_facts_then_hint() {
        let mut failure = Failure::failed("plugin `aws` failed with exit code 1")
            .note("needed by", "user `prod` in `config`, line 14")
            .hint("log in first");
        failure.0.stderr = Some("no session\nrun `aws sso login`\n".to_owned());
        assert_eq!(
            failure.layout(Style::plain()),
            "error: plugin `aws` failed with exit code 1\n\
             \x20 needed by: user `prod` in `config`, line 14\n\
             \x20 the plugin said:\n\
             \x20   no session\n\
             \x20   run `aws sso login`\n\
             \n\
             hint: log in first\n"
        );
    }
}
