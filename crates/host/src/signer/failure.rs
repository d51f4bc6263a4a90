//! Errors for people that only signers have; [`crate::plugin`] has those of every plugin.

use std::time::Duration;

use keyward_protocol::signer::{ErrorResponse, MessageError, Reason, Request, Response};

use super::{Signer, SignerCertificate};
use crate::{Error, Kind, error::inline, plugin::RunSettings};

impl Signer {
    /// A plugin that says why not. A PIN that is wrong is not tried again.
    pub(super) fn refused(
        &self,
        run: &RunSettings<'_>,
        said: &ErrorResponse,
        stderr: &[u8],
    ) -> Error {
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
        let message = run.redactor().apply(said.message.as_bytes());
        if !message.trim().is_empty() {
            error = error.note("it says", inline(message.trim()));
        }
        // It says the same on stderr.
        let shown = String::from_utf8_lossy(stderr);
        if !shown.contains(said.message.as_str()) {
            error = run.with_stderr(error, stderr, &[]);
        }
        if said.reason == Reason::WrongPin {
            error = error.with_hint(
                "it is not tried again by this process, because tokens lock themselves: correct \
                 the PIN, then start again",
            );
            self.wrong_pins.remember(self.plugin.configuration(), error.clone());
        }
        error
    }

    /// A plugin whose answer is not one.
    pub(super) fn bad_answer(
        &self,
        run: &RunSettings<'_>,
        stderr: &[u8],
        wrong: MessageError,
    ) -> Error {
        let what = match wrong {
            MessageError::Empty => "answered nothing",
            _ => "answered something that is no message of the signer protocol",
        };
        run.with_stderr(self.wrong_answer(what), stderr, &[]).because(wrong)
    }

    /// A plugin that answered another request.
    pub(super) fn mixed_up(&self, request: &Request, response: &Response) -> Error {
        let what = format!("answered a `{}` with a `{}`", request.kind(), response.kind());
        self.wrong_answer(&what).needed_by(self.plan.needed_by())
    }

    pub(super) fn wrong_answer(&self, what: &str) -> Error {
        Error::new(Kind::BadAnswer, format!("signer `{}` {what}", self.name()))
    }

    pub(super) fn unsendable(&self) -> Error {
        Error::new(Kind::BadConfig, "the token contains a character that no header can contain")
            .needed_by(self.plan.needed_by())
    }

    fn name(&self) -> String {
        inline(self.plugin.command())
    }
}

impl SignerCertificate {
    /// The error for a signature that is not one of the certificate's key.
    pub fn wrong_signature(&self) -> Error {
        self.signer
            .wrong_answer("answered a signature that was not made with the certificate's key")
            .with_hint(
                "certificate and key do not belong together, or the slot or object is another",
            )
            .needed_by(self.signer.plan.needed_by())
    }

    /// The error for a server that ended the connection after the plugin took this long to sign.
    pub fn too_slow(&self, took: Duration) -> Error {
        let what = format!(
            "the server ended the connection, because signer `{}` took {:.0} s to sign",
            self.signer.name(),
            took.as_secs_f64()
        );
        Error::new(Kind::TimedOut, what).needed_by(self.signer.plan.needed_by()).with_hint(
            "a kube-apiserver waits 32 s for a handshake: with `resident: \"true\"` in the \
                 signer's configuration a PIN is asked for before it begins",
        )
    }

    /// The error for a server that does not take the certificate, with its own word for why.
    pub fn not_accepted(&self, why: &str) -> Error {
        let name = self.common_name.as_deref();
        let whose = name.map(|name| format!(" of `{}`", inline(name))).unwrap_or_default();
        let what = format!("the server did not accept the certificate{whose}");
        Error::new(Kind::Failed, what)
            .note("it says", inline(why))
            .needed_by(self.signer.plan.needed_by())
            .with_hint("is it issued by an authority that the server trusts, and still valid?")
    }

    /// The error for a server that wants signatures this key cannot make.
    pub fn no_scheme(&self) -> Error {
        let what = format!(
            "the server accepts none of the signatures that the {} key of signer `{}` can make",
            self.key.name(),
            self.signer.name()
        );
        Error::new(Kind::Failed, what).needed_by(self.signer.plan.needed_by())
    }
}
