//! External signers: a certificate whose key stays in a token, and a plugin that signs with it.
//!
//! ```text
//! SignerPlugin ──► CertificateRequest ──► SignerCertificate (kept until the certificate ends)
//!              └─► SignRequest ─────────► signature (never kept, one at a time)
//! ```
//!
//! The plugin is run for each request, or, with `resident: "true"`, once for as long as the client
//! lives. What it returns is not believed here: whoever uses a signature checks it against
//! [`SignerCertificate::public_key`] first.

mod failure;
mod fetch;
mod plugin;
mod session;
mod wrong_pins;

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use keyward_protocol::{
    signer::{Hash, Options, Request, Response, SignRequest, pins},
    x509::{Curve, PublicKey},
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

pub use self::plugin::SignerPlugin;
use self::session::Session;
pub(crate) use self::{fetch::Certificates, plugin::Config, wrong_pins::WrongPins};
use keyward_process::{
    clock::{Clock, SystemClock},
    lock,
    runner::{Cancel, Sink},
};

use crate::{Error, Kind, Plan, error::inline, observer::Observer, redact::Redactor};

/// The entry of its configuration that names the program.
pub(crate) const PATH: &str = "pathExec";

/// A certificate whose key is held by an external signer.
pub struct SignerCertificate {
    /// The chain in DER, leaf first. Each is a certificate; whether one signed another was not looked
    /// at.
    pub chain: Vec<Vec<u8>>,
    /// From when the leaf is valid.
    pub not_before: Timestamp,
    /// Until when the leaf is valid.
    pub not_after: Timestamp,
    /// The leaf's common name, for people.
    pub common_name: Option<String>,
    /// The kind of the key.
    pub key: KeyKind,
    /// The public key, as it stands in the bit string of the leaf.
    pub public_key: Vec<u8>,
    /// What the plugin wants the person to be told before a signature. Safe to show: PINs of the
    /// configuration are hidden in it.
    pub prompt: Option<String>,
    signer: Arc<Signer>,
}

/// A kind of key that TLS can sign with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum KeyKind {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

/// Asks the plugin of a plan, one request at a time.
pub(crate) struct Signer {
    plugin: Arc<SignerPlugin>,
    plan: Plan,
    observer: Arc<dyn Observer>,
    wrong_pins: Arc<WrongPins>,
    /// A session that panicked half-way has dropped its plugin, so the next one starts afresh.
    session: Mutex<Session>,
}

impl SignerCertificate {
    /// Signs a message. Blocks, until the plugin has answered, its budget is used up or it is
    /// cancelled, which ends the plugin; waits its turn behind other signatures with the same certificate.
    pub fn sign(
        &self,
        message: &[u8],
        options: Options,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, Error> {
        self.show_prompt();
        let digest = match options.hash() {
            None => message.to_vec(),
            Some(Hash::Sha256) => Sha256::digest(message).to_vec(),
            Some(Hash::Sha384) => Sha384::digest(message).to_vec(),
            Some(Hash::Sha512) => Sha512::digest(message).to_vec(),
        };
        let configuration = self.signer.plugin.configuration().clone();
        let request = Request::Sign(SignRequest { configuration, digest, options });
        let begun = SystemClock.elapsed();
        let answer = self.signer.ask(&request, true, cancel);
        let took = SystemClock.elapsed().saturating_sub(begun);
        // An attempt that nobody waits for any more neither succeeded nor failed.
        if answer.is_ok() || !cancel.is_cancelled() {
            self.signer.observer.signed(took, matches!(answer, Ok(Response::Sign(_))));
        }
        match answer? {
            Response::Sign(signature) => Ok(signature),
            other => Err(self.signer.mixed_up(&request, &other)),
        }
    }

    /// Has a resident plugin open and unlock the token, so that a person has all the time there is:
    /// a server waits for a signature for half a minute. To be called before each connection that
    /// will sign: the plugin may be another one by now, or its key one that wants a PIN for every
    /// signature. If the token is open already, that is quickly seen. Does nothing for a plugin that is run per
    /// request, and for one that cannot be unlocked. Blocks as [`SignerCertificate::sign`] does.
    pub fn unlock(&self, cancel: &Cancel) -> Result<(), Error> {
        let signer = &self.signer;
        if !signer.plugin.resident() || lock(&signer.session).lockless {
            return Ok(());
        }
        let request = Request::Unlock(signer.plugin.configuration().clone());
        match signer.ask(&request, true, cancel)? {
            Response::Unlock => Ok(()),
            other => Err(signer.mixed_up(&request, &other)),
        }
    }

    /// Whether the plugin stays for as long as the client lives.
    pub fn is_resident(&self) -> bool {
        self.signer.plugin.resident()
    }

    /// Whether connections may be resumed without a signature.
    pub fn resumes(&self) -> bool {
        self.signer.plugin.resumption()
    }

    /// How long a plugin may take to sign.
    pub fn budget(&self) -> std::time::Duration {
        let settings = self.signer.plan.settings();
        settings.attended.max(settings.unattended)
    }

    fn show_prompt(&self) {
        let settings = self.signer.plan.settings();
        let Some(prompt) = &self.prompt else { return };
        let sink: Option<&Arc<dyn Sink>> = match &settings.stderr {
            crate::plan::StderrMode::Sink(sink) => Some(sink),
            _ => settings.prompts.as_ref(),
        };
        if let Some(sink) = sink {
            sink.line(self.signer.plugin.command(), prompt);
        }
    }
}

impl Signer {
    pub(crate) fn new(
        plugin: Arc<SignerPlugin>,
        plan: Plan,
        observer: Arc<dyn Observer>,
        wrong_pins: Arc<WrongPins>,
    ) -> Self {
        Self { plugin, plan, observer, wrong_pins, session: Mutex::default() }
    }

    /// A text of the plugin's, safe to show: a signer may tell its own PIN.
    fn hide(&self, text: &str) -> String {
        let mut redactor = Redactor::default();
        for (name, value) in self.plugin.configuration().iter() {
            redactor.add_all(&pins(name, value.expose()));
        }
        redactor.apply(text.as_bytes())
    }

    /// Asks the plugin. Refusals are errors, and a wrong PIN is remembered.
    fn ask(&self, request: &Request, waited_for: bool, cancel: &Cancel) -> Result<Response, Error> {
        // Held over the run on purpose: one at a time.
        let mut session = lock(&self.session);
        if cancel.is_cancelled() {
            // It was while we waited for our turn, and the plugin that stays is for the others.
            let what = "was killed: the request was cancelled";
            let error = format!("signer `{}` {what}", inline(self.plugin.command()));
            return Err(Error::new(Kind::Failed, error));
        }
        if let Some(error) = self.wrong_pins.wrong(self.plugin.configuration()) {
            return Err(error);
        }
        let answered = session.ask(self, request, waited_for, cancel);
        answered.map_err(|error| error.needed_by(self.plan.needed_by()))
    }
}

impl KeyKind {
    /// The kind of a public key; `None` for one that no signer of TLS has.
    fn of(key: PublicKey<'_>) -> Option<Self> {
        match key {
            PublicKey::Rsa { .. } => Some(Self::Rsa),
            PublicKey::Ec { curve: Curve::P256, .. } => Some(Self::P256),
            PublicKey::Ec { curve: Curve::P384, .. } => Some(Self::P384),
            PublicKey::Ec { curve: Curve::P521, .. } => Some(Self::P521),
            PublicKey::Ed25519(_) => Some(Self::Ed25519),
            PublicKey::Ec { curve: Curve::P224, .. } | PublicKey::Other => None,
        }
    }

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa => "RSA",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
            Self::Ed25519 => "Ed25519",
        }
    }
}

impl fmt::Debug for SignerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignerCertificate")
            .field("common_name", &self.common_name)
            .field("key", &self.key)
            .field("resident", &self.is_resident())
            .finish_non_exhaustive()
    }
}
