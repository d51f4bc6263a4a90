//! Errors for people: each way a signer can fail has its own words.

use std::time::Duration;

use keyward_protocol::{
    signer::{Configuration, ErrorResponse, MessageError, Reason, Request, Response, pins},
    text::sounds_secret,
};

use super::{KeyKind, Setup, Signer, setup::Turn};
use keyward_process::runner::{Failure, Status};

use crate::{Error, Kind, error::inline, plan::Origin, redact::Redactor};

impl Signer {
    pub(super) fn setup(&self) -> Result<&Setup, Error> {
        let none = || Error::new(Kind::BadConfig, "the plan has no external signer");
        self.plan.signer().ok_or_else(none)
    }

    pub(super) fn configuration(&self) -> Result<Configuration, Error> {
        self.setup().map(|setup| setup.configuration().clone())
    }

    fn name(&self) -> String {
        self.plan.signer().map(|setup| inline(setup.command())).unwrap_or_default()
    }

    /// A plugin that was not started, or that we ended.
    pub(super) fn not_run(&self, turn: &Turn, failure: Failure) -> Error {
        let name = self.name();
        let error = match &failure {
            Failure::NotFound => {
                return Error::new(Kind::NotFound, format!("signer `{name}` was not found"));
            }
            Failure::TimedOut(_) => Error::new(
                Kind::TimedOut,
                format!("signer `{name}` did not answer within {:?}", turn.budget),
            ),
            Failure::Changed => Error::new(
                Kind::NotAllowed,
                format!("the file of signer `{name}` was changed after it was checked"),
            ),
            Failure::TooMuchOutput(_) => {
                Error::new(Kind::BadAnswer, format!("signer `{name}` printed too much"))
            }
            Failure::Gone(_) => Error::new(
                Kind::Failed,
                format!("resident signer `{name}` ended before it answered, twice"),
            )
            .with_hint("if the signer does not know resident mode, remove `resident` from its configuration"),
            Failure::Cancelled(_) => self.given_up(),
            _ => Error::new(Kind::Failed, format!("signer `{name}` cannot be started")),
        };
        let error = match failure.left() {
            Some(left) => self.with_stderr(error, turn, &left.stderr),
            None => error,
        };
        // What the words above say already is not said again as their cause.
        if failure.left().is_some() || matches!(failure, Failure::Changed) {
            error
        } else {
            error.because(failure)
        }
    }

    /// A plugin that ended badly, and did not say why on stdout.
    pub(super) fn ended(&self, turn: &Turn, status: Status, stderr: &[u8]) -> Error {
        let name = self.name();
        let what = match status {
            Status::Code(code) => format!("signer `{name}` failed with exit code {code}"),
            Status::Signal(signal) => format!("signer `{name}` was ended by signal {signal}"),
        };
        self.with_stderr(Error::new(Kind::Failed, what), turn, stderr)
    }

    /// A plugin that says why not. A PIN that is wrong is not tried again.
    pub(super) fn refused(&self, turn: &Turn, said: &ErrorResponse, stderr: &[u8]) -> Error {
        let name = self.name();
        let (kind, what) = match said.reason {
            Reason::BadConfig => (Kind::BadConfig, "cannot use its configuration"),
            Reason::NeedsTerminal => (Kind::NeedsTerminal, "needs a person at a terminal"),
            Reason::NotAllowed => (Kind::NotAllowed, "did not do it"),
            Reason::WrongPin => (Kind::NotAllowed, "says that the PIN is wrong"),
            Reason::Unsupported => (Kind::Failed, "cannot do what it was asked"),
            _ => (Kind::Failed, "failed"),
        };
        let mut error = Error::new(kind, format!("signer `{name}` {what}"));
        let message = self.redactor(turn).apply(said.message.as_bytes());
        if !message.trim().is_empty() {
            error = error.note("it says", inline(message.trim()));
        }
        // It says the same on stderr.
        let shown = String::from_utf8_lossy(stderr);
        if !shown.contains(said.message.as_str()) {
            error = self.with_stderr(error, turn, stderr);
        }
        if said.reason == Reason::WrongPin
            && let Some(setup) = self.plan.signer()
        {
            error = error.with_hint(
                "it is not tried again by this process, because tokens lock themselves: correct \
                 the PIN, then start again",
            );
            self.pins.remember(setup.configuration(), error.clone());
        }
        error
    }

    /// A plugin whose answer is not one.
    pub(super) fn bad_answer(&self, turn: &Turn, stderr: &[u8], wrong: MessageError) -> Error {
        let what = match wrong {
            MessageError::Empty => "answered nothing",
            _ => "answered something that is no message of the signer protocol",
        };
        self.with_stderr(self.wrong_answer(what), turn, stderr).because(wrong)
    }

    /// A plugin that answered another request.
    pub(super) fn mixed_up(&self, request: &Request, response: &Response) -> Error {
        let what = format!("answered a `{}` with a `{}`", request.kind(), response.kind());
        self.wrong_answer(&what).note_first("needed by", self.plan.needed_by())
    }

    pub(super) fn wrong_answer(&self, what: &str) -> Error {
        Error::new(Kind::BadAnswer, format!("signer `{}` {what}", self.name()))
    }

    pub(super) fn wrong_signature(&self) -> Error {
        self.wrong_answer("answered a signature that was not made with the certificate's key")
            .with_hint(
                "certificate and key do not belong together, or the slot or object is another",
            )
            .note_first("needed by", self.plan.needed_by())
    }

    pub(super) fn given_up(&self) -> Error {
        let what =
            format!("signer `{}` was ended, because nobody waits for it any more", self.name());
        Error::new(Kind::Failed, what)
    }

    pub(super) fn too_slow(&self, took: Duration) -> Error {
        let what = format!(
            "the server ended the connection, because signer `{}` took {:.0} s to sign",
            self.name(),
            took.as_secs_f64()
        );
        Error::new(Kind::TimedOut, what).note_first("needed by", self.plan.needed_by()).with_hint(
            "a kube-apiserver waits 32 s for a handshake: with `resident: \"true\"` in the \
                 signer's configuration a PIN is asked for before it begins",
        )
    }

    pub(super) fn not_accepted(&self, subject: Option<&str>, why: &str) -> Error {
        let whose = subject.map(|name| format!(" of `{}`", inline(name))).unwrap_or_default();
        let what = format!("the server did not accept the certificate{whose}");
        Error::new(Kind::Failed, what)
            .note("it says", inline(why))
            .note_first("needed by", self.plan.needed_by())
            .with_hint("is it issued by an authority that the server trusts, and still valid?")
    }

    pub(super) fn no_scheme(&self, key: KeyKind) -> Error {
        let what = format!(
            "the server accepts none of the signatures that the {} key of signer `{}` can make",
            key.name(),
            self.name()
        );
        Error::new(Kind::Failed, what).note_first("needed by", self.plan.needed_by())
    }

    pub(super) fn unsendable(&self) -> Error {
        Error::new(Kind::BadConfig, "the token contains a character that no header can carry")
            .note_first("needed by", self.plan.needed_by())
    }

    fn with_stderr(&self, error: Error, turn: &Turn, stderr: &[u8]) -> Error {
        let said = self.redactor(turn).apply(stderr);
        if said.trim().is_empty() { error } else { error.with_stderr(said) }
    }

    /// Every secret we know of: a PIN, and what sounds like a secret in configuration and
    /// environment.
    fn redactor(&self, turn: &Turn) -> Redactor {
        let mut redactor = Redactor::default();
        if let Some(setup) = self.plan.signer() {
            for (name, value) in setup.configuration().iter() {
                if sounds_secret(name) {
                    redactor.add(value.expose());
                }
                redactor.add_urls(value.expose());
                redactor.add_all(&pins(name, value.expose()));
            }
        }
        for variable in &turn.environment {
            let (name, value) = (variable.name.to_string_lossy(), variable.value.to_string_lossy());
            match variable.origin {
                Origin::Inherited => redactor.add_inherited(&name, &value),
                Origin::Configured | Origin::Set => redactor.add_configured(&value),
                Origin::Request => {}
            }
        }
        redactor
    }
}
