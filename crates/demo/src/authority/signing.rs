//! Certificate requests (PKCS#10) from clients that generated their own key.

use std::time::Duration;

use keyward_protocol::{
    der::{self, Der},
    pem,
    x509::{Name, PublicKeyInfo},
};
use rcgen::{PublicKeyData, SignatureAlgorithm};
use rustls::crypto::ring;

use super::{Authority, LEEWAY, client_params};
use crate::{Error, clock};

/// A request whose signature was verified: its sender has the key.
#[derive(Debug)]
pub struct SigningRequest {
    /// The requested common name.
    pub name: String,
    /// The requested organisations.
    pub groups: Vec<String>,
    key: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl SigningRequest {
    /// Parses and verifies a request in PEM.
    pub fn read(pem: &str) -> Result<Self, &'static str> {
        let block = pem::Blocks::of(pem.as_bytes())
            .find(|block| block.label == "CERTIFICATE REQUEST")
            .ok_or("it is no certificate request in PEM")?;
        Self::parse(&block.content)
            .ok_or("it is malformed, or for a kind of key that is not known here")?
    }

    fn parse(bytes: &[u8]) -> Option<Result<Self, &'static str>> {
        let mut whole = Der(bytes).read(der::SEQUENCE)?;
        let signed = whole.whole(der::SEQUENCE)?;
        let Der(algorithm) = whole.read(der::SEQUENCE)?;
        let (_, signature) = whole.bits()?;

        let mut body = Der(signed).read(der::SEQUENCE)?;
        body.integer()?;
        let subject = Name::read(&mut body)?;
        let name = subject.common_name().unwrap_or_default().to_owned();
        let groups = subject.organizations().map(str::to_owned).collect();
        let info = PublicKeyInfo::read(&mut body)?;
        let (key, Der(kind)) = (info.bits, Der(info.der).read(der::SEQUENCE)?.read(der::SEQUENCE)?);

        let known = ring::default_provider().signature_verification_algorithms;
        let checker = known.all.iter().find(|candidate| {
            candidate.public_key_alg_id().as_ref() == kind
                && candidate.signature_alg_id().as_ref() == algorithm
        })?;
        if checker.verify_signature(key, signed, signature).is_err() {
            return Some(Err("it is not signed with the key it is about"));
        }
        let algorithm = algorithm_of(kind)?;
        Some(Ok(Self { name, groups, key: key.to_vec(), algorithm }))
    }
}

impl PublicKeyData for SigningRequest {
    fn der_bytes(&self) -> &[u8] {
        &self.key
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

/// The algorithm that writes a key of this kind as it was read.
fn algorithm_of(kind: &[u8]) -> Option<&'static SignatureAlgorithm> {
    use rustls::pki_types::alg_id;

    [
        (alg_id::RSA_ENCRYPTION, &rcgen::PKCS_RSA_SHA256),
        (alg_id::ECDSA_P256, &rcgen::PKCS_ECDSA_P256_SHA256),
        (alg_id::ECDSA_P384, &rcgen::PKCS_ECDSA_P384_SHA384),
        (alg_id::ED25519, &rcgen::PKCS_ED25519),
    ]
    .into_iter()
    .find(|(id, _)| id.as_ref() == kind)
    .map(|(_, algorithm)| algorithm)
}

impl Authority {
    /// The certificate for a certificate request, both in PEM.
    pub fn answer(&self, request: &str, lifetime: Duration) -> Result<String, Error> {
        let request =
            SigningRequest::read(request).map_err(Error::of("read a certificate request"))?;
        self.certify(&request, lifetime)
    }

    /// The certificate for a verified request, in PEM.
    pub fn certify(&self, request: &SigningRequest, lifetime: Duration) -> Result<String, Error> {
        let now = clock::now();
        let mut params =
            client_params(&request.name, &request.groups, now - LEEWAY, now + lifetime)?;
        params.serial_number = Some(self.next_serial().into());
        let certificate = params
            .signed_by(request, &self.issuer)
            .map_err(Error::of("sign a certificate that was asked for"))?;
        Ok(certificate.pem())
    }
}
