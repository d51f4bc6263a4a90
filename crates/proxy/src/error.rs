//! Why a proxy cannot start, or cannot serve a context.

use std::{borrow::Cow, error::Error as StdError, fmt};

use keyward_protocol::text::{causes, inline};

/// Why a proxy cannot start, or cannot serve a context: a message, labelled facts, and what to do next.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    message: String,
    notes: Vec<(Cow<'static, str>, String)>,
    hint: Option<String>,
}

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The options contradict each other or the kubeconfig; nothing was tried.
    Usage,
    /// The plugin needs a person at a terminal and there is none.
    NeedsTerminal,
    /// The plugin policy, or the state of the plugin's file, forbids the run.
    NotAllowed,
    /// Anything else.
    Failed,
}

impl Error {
    /// An error without facts or hint.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), notes: Vec::new(), hint: None }))
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub(crate) fn caused(message: impl Into<String>, cause: &dyn StdError) -> Self {
        Self::failed(message).note("cause", cause.to_string())
    }

    /// Adds a labelled fact.
    #[must_use]
    pub fn note(mut self, label: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        self.0.notes.push((label.into(), text.into()));
        self
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// What a caller can do about the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What failed, in one line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The labelled facts, in order.
    pub fn notes(&self) -> &[(Cow<'static, str>, String)] {
        &self.0.notes
    }

    /// What to do next.
    pub fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The message and the facts in one line, for a log.
    pub fn line(&self) -> String {
        let notes = self.notes().iter().map(|(label, text)| format!("; {label}: {text}"));
        inline(&[self.0.message.clone()].into_iter().chain(notes).collect::<String>())
    }

    fn causes(self, error: &(dyn StdError + 'static)) -> Self {
        causes(error).fold(self, |error, cause| error.note("cause", cause.to_string()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {}

impl From<keyward_host::Error> for Error {
    fn from(error: keyward_host::Error) -> Self {
        let kind = match error.kind() {
            keyward_host::Kind::NeedsTerminal => Kind::NeedsTerminal,
            keyward_host::Kind::NotAllowed => Kind::NotAllowed,
            _ => Kind::Failed,
        };
        let mut made = Self::new(kind, error.to_string()).causes(&error);
        for (label, text) in error.notes() {
            made = made.note(*label, text);
        }
        made.0.hint = error.hint().map(str::to_owned);
        made
    }
}

impl From<keyward::Error> for Error {
    fn from(error: keyward::Error) -> Self {
        match error.credential() {
            Some(credential) => credential.clone().into(),
            None => Self::failed(error.to_string()).causes(&error),
        }
    }
}
