use std::{
    iter,
    sync::{Arc, Mutex},
};

use keyward_protocol::signer::{CertificateResponse, Request, Response};

use super::{KeyKind, Signer, SignerCertificate};
use keyward_process::{clock::SharedClock, lock, runner::Cancel};

use crate::{
    Credential, Error,
    cell::{Fetch, Fetched, Occasion},
    credential::{Header, Unsendable},
    pair::{outside_validity, read_certificate},
};

/// Asks an external signer for its certificate whenever there is none that is valid.
pub(crate) struct Certificates {
    signer: Arc<Signer>,
    /// What the user says in the header besides.
    header: Header,
    clock: SharedClock,
    /// The last one, so that a certificate that did not change keeps its connections.
    last: Mutex<Option<Arc<SignerCertificate>>>,
}

impl Certificates {
    pub(crate) fn new(signer: Signer, header: Header, clock: SharedClock) -> Self {
        Self { signer: Arc::new(signer), header, clock, last: Mutex::new(None) }
    }

    fn attempt(&self, occasion: &Occasion, cancel: &Cancel) -> Result<Fetched<Credential>, Error> {
        let request = Request::Certificate(self.signer.plugin.configuration().clone());
        let waited_for = !matches!(occasion, Occasion::Ahead);
        let response = match self.signer.ask(&request, waited_for, cancel)? {
            Response::Certificate(response) => response,
            other => return Err(self.signer.mixed_up(&request, &other)),
        };
        let certificate = self.keep(self.read(response)?);
        let expires = Some(certificate.not_after);
        let credential = Credential::signed(self.header.clone(), certificate, expires)
            .map_err(|Unsendable| self.signer.unsendable())?;
        Ok(Fetched { value: credential, expires })
    }

    fn read(&self, response: CertificateResponse) -> Result<SignerCertificate, Error> {
        let wrong = |what: &str| {
            let needed_by = self.signer.plan.needed_by();
            self.signer.wrong_answer(what).needed_by(needed_by)
        };
        let leaf = read_certificate(&response.certificate).ok_or_else(|| {
            malformed(wrong("answered a certificate that is malformed"), &response.certificate)
        })?;
        let key = KeyKind::of(leaf.public_key.key)
            .ok_or_else(|| wrong("answered a certificate for a kind of key that TLS cannot use"))?;
        let now = self.clock.now();
        if let Some(what) = outside_validity(leaf.not_before, leaf.not_after, now) {
            let hint = "have a new certificate issued for the key, and put it on the token";
            return Err(wrong(&what).with_hint_if((now > leaf.not_after).then_some(hint)));
        }
        if let Some(place) = response.chain.iter().position(|der| read_certificate(der).is_none()) {
            let what = format!("answered a `certificateChain` whose entry {place} is malformed");
            return Err(malformed(wrong(&what), &response.chain[place]));
        }
        Ok(SignerCertificate {
            not_before: leaf.not_before,
            not_after: leaf.not_after,
            common_name: leaf.subject.common_name().map(str::to_owned),
            key,
            public_key: leaf.public_key.bits.to_vec(),
            chain: iter::once(response.certificate).chain(response.chain).collect(),
            prompt: response.prompt.map(|prompt| self.signer.hide(&prompt)),
            signer: Arc::clone(&self.signer),
        })
    }

    fn keep(&self, certificate: SignerCertificate) -> Arc<SignerCertificate> {
        let mut last = lock(&self.last);
        match &*last {
            Some(known)
                if known.chain == certificate.chain && known.prompt == certificate.prompt =>
            {
                Arc::clone(known)
            }
            _ => Arc::clone(last.insert(Arc::new(certificate))),
        }
    }
}

impl Fetch<Credential> for Certificates {
    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        self.fetch_until(occasion, &Cancel::default())
    }

    /// A signer may be asking a person: who gives up does not leave the question behind.
    fn ends(&self) -> bool {
        true
    }

    fn fetch_until(
        &self,
        occasion: &Occasion,
        cancel: &Cancel,
    ) -> Result<Fetched<Credential>, Error> {
        let start = self.clock.elapsed();
        let result = self.attempt(occasion, cancel);
        let took = self.clock.elapsed().saturating_sub(start);
        self.signer.observer.refreshed(took, result.is_ok());
        result
    }
}

/// Adds what to do if a certificate is a PEM, which is the usual mistake.
fn malformed(error: Error, certificate: &[u8]) -> Error {
    if !certificate.starts_with(b"-----BEGIN ") {
        return error;
    }
    error.with_hint(
        "the signer sent a PEM in base64: it must send the DER in base64, which is what stands between \
         the `BEGIN` and `END` lines",
    )
}
