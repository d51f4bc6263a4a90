use std::{error::Error as StdError, fmt, sync::Arc};

pub(crate) use keyward_protocol::text::inline;
use keyward_protocol::text::{block, causes};

use crate::kubeconfig::Problem;

/// Why there is no credential. Opaque and cheap to clone, because one failed run answers many callers.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The plugin, or a file, is not there: install it ([`Error::hint`] may say how).
    NotFound,
    /// The plugin policy, or the state of the program's file, forbids the run.
    NotAllowed,
    /// The plugin needs a person at a terminal and there is none.
    NeedsTerminal,
    /// The plugin ran and failed, or could not be started.
    Failed,
    /// The plugin answered something that is not a credential.
    BadAnswer,
    /// The kubeconfig, or another configuration, is wrong.
    BadConfig,
    /// The time budget of the run was used up.
    TimedOut,
}

#[derive(Clone)]
struct Inner {
    kind: Kind,
    message: String,
    notes: Vec<(&'static str, String)>,
    hint: Option<String>,
    stderr: Option<String>,
    stderr_shown: bool,
    problems: Vec<Problem>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// The label of the note that says who needed the credential.
    pub const NEEDED_BY: &'static str = "needed by";

    /// The label of a note with a cause.
    pub const CAUSE: &'static str = "cause";

    /// What a caller can do about it.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What the user can do next, such as how to install the plugin. Cleaned of control characters.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Labelled facts for people, in order: `("needed by", "user `prod` in …, line 14")`.
    pub fn notes(&self) -> &[(&'static str, String)] {
        &self.0.notes
    }

    /// What is wrong with the kubeconfig, problem by problem; empty for errors of other kinds.
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }

    /// The last of what the plugin wrote to its stderr, cleaned and redacted. Part of `Debug`, which
    /// is what a `main` that returns the error prints, unless it [was shown](Self::stderr_shown); not
    /// part of `Display`.
    pub fn stderr(&self) -> Option<&str> {
        self.0.stderr.as_deref()
    }

    /// Whether a sink was given that stderr while the plugin ran, so that it need not be shown again.
    pub fn stderr_shown(&self) -> bool {
        self.0.stderr_shown
    }
}

/// Builders. They make control characters in untrusted names and paths harmless.
impl Error {
    /// An error with a message in lower case and without a full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: inline(&message.into()),
            notes: Vec::new(),
            hint: None,
            stderr: None,
            stderr_shown: false,
            problems: Vec::new(),
            source: None,
        }))
    }

    /// An error that another process of ours has reported, as its `Debug` shows it. Notes and what the
    /// plugin said become those of this error; who needed the credential is for this process to say.
    pub fn relayed(kind: Kind, report: &str) -> Self {
        let (report, hint) = match report.split_once("\n\nhint: ") {
            Some((report, hint)) => (report, Some(hint)),
            None => (report, None),
        };
        let mut lines = report.lines();
        let mut error = Self::new(kind, lines.next().unwrap_or_default());
        let mut said = String::new();
        for line in lines {
            match line.trim_start().split_once(": ") {
                _ if line.starts_with("    ") => said.extend([line.trim_start(), "\n"]),
                _ if line.trim_start().starts_with("the plugin said") => {}
                Some((Self::NEEDED_BY, _)) => {}
                Some((Self::CAUSE, text)) => error = error.note(Self::CAUSE, text),
                _ => error = error.note("also", line.trim()),
            }
        }
        if !said.is_empty() {
            error = error.with_stderr(said);
        }
        error.with_hint_if(hint)
    }

    /// Adds a labelled fact for people.
    #[must_use]
    pub fn note(self, label: &'static str, text: impl Into<String>) -> Self {
        self.change(|inner| inner.notes.push((label, inline(&text.into()))))
    }

    /// Adds who needed it, before the other facts: that matters more than how it failed.
    #[must_use]
    pub fn needed_by(self, who: impl Into<String>) -> Self {
        self.change(|inner| inner.notes.insert(0, (Self::NEEDED_BY, inline(&who.into()))))
    }

    /// Adds what the user can do next.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        self.change(|inner| inner.hint = Some(block(&hint.into())))
    }

    pub(crate) fn with_hint_if(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    pub(crate) fn with_stderr(self, stderr: impl Into<String>) -> Self {
        self.change(|inner| inner.stderr = Some(stderr.into()))
    }

    /// Says that a sink got the stderr line by line.
    pub(crate) fn with_stderr_shown(self, shown: bool) -> Self {
        self.change(|inner| inner.stderr_shown = shown)
    }

    pub(crate) fn with_problems(self, problems: Vec<Problem>) -> Self {
        self.change(|inner| inner.problems = problems)
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.change(|inner| inner.source = Some(Arc::new(source)))
    }

    /// An error that is already shared (a policy file's fault) is copied first.
    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

/// The most lines of a plugin's stderr that are shown with an error: its last words tell most.
const MOST_SAID: usize = 40;

impl Error {
    /// What follows the message, a line each: causes, notes, with `stderr` what the plugin wrote,
    /// and the hint.
    fn details(&self, f: &mut fmt::Formatter<'_>, stderr: bool) -> fmt::Result {
        for cause in causes(self) {
            write!(f, "\n  cause: {cause}")?;
        }
        for (label, text) in self.notes() {
            write!(f, "\n  {label}: {text}")?;
        }
        if let Some(said) =
            self.stderr().filter(|said| !said.trim().is_empty() && stderr && !self.stderr_shown())
        {
            let lines: Vec<&str> = said.trim_end().lines().collect();
            let left_out = lines.len().saturating_sub(MOST_SAID);
            f.write_str("\n  the plugin said")?;
            if left_out > 0 {
                write!(f, ", after {left_out} lines that are left out")?;
            }
            f.write_str(":")?;
            for line in &lines[left_out..] {
                write!(f, "\n    {}", inline(line))?;
            }
        }
        match self.hint() {
            Some(hint) => write!(f, "\n\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The message alone; `{:#}` adds the causes, the notes and the hint, a line each, as the program
/// prints them. What the plugin wrote is in neither.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if f.alternate() { self.details(f, false) } else { Ok(()) }
    }
}

/// Everything a person needs, a line each, because this is what a `main` that returns the error
/// prints; `{:#?}` shows the fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            f.write_str(&self.0.message)?;
            return self.details(f, true);
        }
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("notes", &self.0.notes)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_stranger_moves_the_cursor_or_adds_a_line() {
        let evil = "x\u{1b}[2J\r\nerror: y";
        let error = Error::new(Kind::Failed, evil).note("a", evil).needed_by(evil);
        let error = error.with_hint("one\r\ntwo\u{9b}K");
        let error = error.with_stderr(evil);
        let shown = format!("{error:#} {error:#?} {error:?} ");
        let safe = "xU+001B[2J  error: y";
        assert_eq!(shown.matches(safe).count(), 9, "{shown}");
        assert_eq!(shown.matches("hint: one \ntwoU+009BK ").count(), 2, "{shown}");
        assert!(!shown.contains(['\r', '\u{1b}', '\u{9b}']), "{shown}");
    }

    #[test]
    fn what_another_process_reports_is_told_as_if_it_had_happened_here() {
        let error = Error::new(Kind::Failed, "plugin `aws` failed with exit code 1")
            .note("cause", "no network")
            .with_stderr("first\nsecond: last\n")
            .with_hint("log in first");
        let report = format!("{:?}", error.clone().needed_by("user `theirs`"));
        let relayed = Error::relayed(Kind::Failed, &report);
        assert_eq!(format!("{relayed:?}"), format!("{error:?}"));
        assert_eq!(Error::relayed(Kind::Failed, "").to_string(), "");
    }

    #[test]
    fn debug_tells_a_person_everything_and_the_error_stays_in_sight() {
        let error = Error::new(Kind::Failed, "plugin `aws` failed with exit code 1")
            .because(std::io::Error::other("no network"))
            .note("needed by", "user `prod` in `config`, line 14")
            .with_stderr("line\n".repeat(99) + "run `aws sso login`\n")
            .with_hint("log in first");
        let shown = format!("{error:?}");
        let (head, said) = shown.split_once("left out:\n").expect(&shown);
        assert_eq!(
            head,
            "plugin `aws` failed with exit code 1\n  cause: no network\n  \
             needed by: user `prod` in `config`, line 14\n  \
             the plugin said, after 60 lines that are "
        );
        assert!(
            said.ends_with("    line\n    run `aws sso login`\n\nhint: log in first"),
            "{said}"
        );
        assert_eq!(error.to_string(), "plugin `aws` failed with exit code 1");
        assert!(!format!("{error:#}").contains("sso"), "{error:#}");
    }
}
