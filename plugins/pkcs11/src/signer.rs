//! The plugin: certificates and signatures for a client.

use keyward_plugin::{CertificateResponse, Configuration, Refusal, Secret, SignRequest, Signer};

use crate::{
    contents::{Contents, Private},
    fault::is_gone,
    identity::{Identity, chain},
    open::Open,
    sign::Failure,
    surroundings::now,
    target::Target,
    uri::lines,
};

/// A token and its key, opened when they are first needed and kept for as long as we run.
pub(crate) struct TokenSigner {
    /// Whether there is but one request to answer.
    brief: bool,
    open: Option<Open>,
    /// The key that was found, in the session of `open`.
    key: Option<Private>,
    /// PINs that were wrong. None of them is tried again by this process.
    burnt: Vec<Secret>,
}

impl Signer for TokenSigner {
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal> {
        let target = Target::from_configuration(configuration)?;
        let Self { open, burnt, .. } = self.reach(&target)?;
        let open = open.as_mut().ok_or_else(unopened)?;
        // Certificates are public in most tokens, so nobody need be asked for a PIN to see one.
        let contents = open.contents()?;
        let seen = Identity::choose(&contents, &open.token, &open.target.uri)?;
        if seen.is_none_or(|identity| identity.certificates.is_empty()) && open.hides() {
            open.login(burnt)?;
            return respond(open, &open.contents()?);
        }
        respond(open, &contents)
    }

    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal> {
        let target = Target::from_configuration(&request.configuration)?;
        match self.try_sign(&target, request) {
            // The card was pulled out and put back, or a daemon between us was started anew.
            Err(Failure::Module(error)) if is_gone(&error) => {
                self.close();
                self.try_sign(&target, request).map_err(Failure::refusal)
            }
            outcome => outcome.map_err(Failure::refusal),
        }
    }

    fn unlock(&mut self, configuration: &Configuration) -> Result<(), Refusal> {
        let target = Target::from_configuration(configuration)?;
        self.ready(&target)
    }
}

impl TokenSigner {
    /// One that has opened nothing yet.
    pub(crate) fn new(brief: bool) -> Self {
        Self { brief, open: None, key: None, burnt: Vec::new() }
    }

    /// Opens the token, unless it is open for the same target.
    fn reach(&mut self, target: &Target) -> Result<&mut Self, Refusal> {
        if self.open.as_ref().is_none_or(|open| open.target != *target) {
            self.close();
            let open = Open::new(target.clone(), false)?;
            self.open = Some(if self.brief { open.briefly() } else { open });
        }
        Ok(self)
    }

    fn close(&mut self) {
        self.key = None;
        self.open = None;
    }

    /// Logs in and finds the key.
    fn ready(&mut self, target: &Target) -> Result<(), Refusal> {
        let Self { open, key, burnt, .. } = self.reach(target)?;
        let open = open.as_mut().ok_or_else(unopened)?;
        if key.is_none() {
            open.login(burnt)?;
            *key = Some(find(open, &open.contents()?)?);
        }
        match key {
            Some(key) => open.prepare(key, burnt),
            None => Err(unopened()),
        }
    }

    fn try_sign(&mut self, target: &Target, request: &SignRequest) -> Result<Vec<u8>, Failure> {
        self.ready(target)?;
        let Self { open: Some(open), key: Some(key), burnt, .. } = self else {
            return Err(Failure::Final(unopened()));
        };
        let outcome = open.sign(key, request.options, &request.digest, burnt);
        if outcome.is_err() && key.always {
            // A signature that was begun and not ended would be in the way of the next.
            self.close();
        }
        outcome
    }
}

fn unopened() -> Refusal {
    Refusal::failed("the token is not open")
}

fn respond(open: &Open, contents: &Contents) -> Result<CertificateResponse, Refusal> {
    let identity = choose(open, contents)?;
    let certificate = identity.certificate(now()).ok_or_else(|| {
        let uri = identity.uri(&open.token);
        Refusal::BadConfig(format!(
            "there is no certificate for the key `{uri}`\n\nhint: `keyward-pkcs11 csr` asks for \
             one, `keyward-pkcs11 import` stores it"
        ))
    })?;
    let prompt = open.token.pin.pad.then(|| {
        format!("token `{}` asks for its PIN on its own keys or on its reader", open.token.label)
    });
    Ok(CertificateResponse {
        certificate: certificate.der.clone(),
        chain: chain(certificate, contents, now()).iter().map(|c| c.der.clone()).collect(),
        prompt,
    })
}

/// The identity that is meant.
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
        Refusal::BadConfig(format!("no key of token `{label}` is the one that is meant\n\n{hint}"))
    })
}

/// The private key that is meant.
pub(crate) fn find(open: &Open, contents: &Contents) -> Result<Private, Refusal> {
    choose(open, contents)?.private.cloned().ok_or_else(|| {
        Refusal::BadConfig(format!("token `{}` shows no private key", open.token.label))
    })
}
