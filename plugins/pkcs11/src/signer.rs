//! The plugin: certificates and signatures for a client.

use keyward_plugin::{CertificateResponse, Configuration, Refusal, Secret, SignRequest, Signer};
use keyward_process::clock::{Clock as _, SystemClock};

use crate::{
    contents::{Contents, Private},
    fault::is_gone,
    identity::{Identity, chain},
    open::Open,
    sign::Failure,
    target::Target,
    uri::lines,
};

/// A token and its key, opened at the first use and kept until the process ends.
pub(crate) struct TokenSigner {
    /// Whether the process answers one request only.
    one_request: bool,
    /// The open token and, after the login, the key in its session.
    open: Option<(Open, Option<Private>)>,
    /// PINs that were wrong. This process does not try them again.
    wrong_pins: Vec<Secret>,
}

impl Signer for TokenSigner {
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal> {
        let target = Target::from_configuration(configuration)?;
        let (open, _, wrong_pins) = self.open(&target)?;
        // Most tokens show certificates without a login, so try without a PIN first.
        let contents = open.contents()?;
        let seen = Identity::choose(&contents, &open.token, &open.target.uri)?;
        if seen.is_none_or(|identity| identity.certificates.is_empty()) && open.needs_login() {
            open.login(wrong_pins)?;
            return respond(open, &open.contents()?);
        }
        respond(open, &contents)
    }

    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal> {
        let target = Target::from_configuration(&request.configuration)?;
        match self.try_sign(&target, request) {
            // The card was removed and inserted again, or a daemon in between was restarted, just now.
            Err(Failure::Module(error)) if is_gone(&error) => {
                self.open = None;
                self.try_sign(&target, request).map_err(Failure::refusal)
            }
            outcome => outcome.map_err(Failure::refusal),
        }
    }

    fn unlock(&mut self, configuration: &Configuration) -> Result<(), Refusal> {
        let target = Target::from_configuration(configuration)?;
        self.ready(&target).map(drop)
    }
}

impl TokenSigner {
    /// A signer that has opened nothing yet.
    pub(crate) fn new(one_request: bool) -> Self {
        Self { one_request, open: None, wrong_pins: Vec::new() }
    }

    /// Opens the token, unless it is still open for the same target: with its key, if that is known, and wrong PINs.
    fn open(
        &mut self,
        target: &Target,
    ) -> Result<(&mut Open, &mut Option<Private>, &mut Vec<Secret>), Refusal> {
        let kept = self.open.take().filter(|(open, _)| open.target == *target && open.is_alive());
        let opened = if let Some(kept) = kept {
            kept
        } else {
            let mut open = Open::new(target.clone(), false)?;
            open.one_request = self.one_request;
            (open, None)
        };
        let (open, key) = self.open.insert(opened);
        Ok((open, key, &mut self.wrong_pins))
    }

    /// Logs in and finds the key.
    fn ready(
        &mut self,
        target: &Target,
    ) -> Result<(&mut Open, &Private, &mut Vec<Secret>), Refusal> {
        let (open, key, wrong_pins) = self.open(target)?;
        let key = if let Some(key) = key {
            key
        } else {
            open.login(wrong_pins)?;
            key.insert(find(open, &open.contents()?)?)
        };
        open.prepare(key, wrong_pins)?;
        Ok((open, key, wrong_pins))
    }

    fn try_sign(&mut self, target: &Target, request: &SignRequest) -> Result<Vec<u8>, Failure> {
        let (open, key, wrong_pins) = self.ready(target)?;
        let outcome = open.sign(key, request.options, &request.digest, wrong_pins);
        if outcome.is_err() && key.always_authenticate {
            // An unfinished signature would block the next one.
            self.open = None;
        }
        outcome
    }
}

fn respond(open: &Open, contents: &Contents) -> Result<CertificateResponse, Refusal> {
    let identity = choose(open, contents)?;
    let now = SystemClock.now();
    let certificate = identity.certificate(now).ok_or_else(|| {
        let uri = identity.uri(&open.token);
        Refusal::BadConfig(format!(
            "there is no certificate for the key `{uri}`\n\nhint: `keyward-pkcs11 csr` asks for \
             one, `keyward-pkcs11 import` stores it"
        ))
    })?;
    let prompt = open.token.pin.keypad.then(|| {
        format!("token `{}` asks for its PIN on its own keys or on its reader", open.token.label)
    });
    Ok(CertificateResponse {
        certificate: certificate.der.clone(),
        chain: chain(certificate, contents, now).iter().map(|c| c.der.clone()).collect(),
        prompt,
    })
}

/// The identity that the target matches.
pub(crate) fn choose<'a>(open: &Open, contents: &'a Contents) -> Result<Identity<'a>, Refusal> {
    Identity::choose(contents, &open.token, &open.target.uri)?.ok_or_else(|| {
        let label = &open.token.label;
        let all = Identity::all(contents);
        let hint = if all.is_empty() {
            "hint: it shows no key at all; `keyward-pkcs11 keygen` makes one".to_owned()
        } else {
            let uris = all.iter().map(|identity| identity.uri(&open.token));
            format!("hint: there are{}", lines(uris))
        };
        Refusal::BadConfig(format!("no key of token `{label}` matches\n\n{hint}"))
    })
}

/// The private key that the target matches.
pub(crate) fn find(open: &Open, contents: &Contents) -> Result<Private, Refusal> {
    choose(open, contents)?.private.cloned().ok_or_else(|| {
        Refusal::BadConfig(format!("token `{}` shows no private key", open.token.label))
    })
}
