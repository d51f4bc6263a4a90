//! A key that an external signer holds, for rustls.

use std::sync::Arc;

use keyward_host::{KeyKind, SignerCertificate};
use keyward_process::runner::Cancel;
use keyward_protocol::signer::{Hash, Options};
use rustls::{
    Error as TlsError, OtherError, SignatureAlgorithm, SignatureScheme,
    crypto::CryptoProvider,
    pki_types::{AlgorithmIdentifier, CertificateDer, SignatureVerificationAlgorithm, alg_id},
    sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey},
};

use super::{default_provider, ecdsa::P521_SHA512, handshake};

/// Shows the certificate in every handshake that asks for one.
pub(super) fn resolver(
    provider: &CryptoProvider,
    certificate: &Arc<SignerCertificate>,
) -> SingleCertAndKey {
    let chain = certificate.chain.iter().cloned().map(CertificateDer::from).collect();
    let key = SignerKey {
        certificate: Arc::clone(certificate),
        schemes: schemes_of(provider, certificate.key).into(),
    };
    SingleCertAndKey::from(CertifiedKey::new(chain, Arc::new(key)))
}

/// The host's error in a failed handshake, where a signature was what failed.
pub(crate) fn failure(error: &std::io::Error) -> Option<&keyward_host::Error> {
    match error.get_ref()?.downcast_ref()? {
        TlsError::Other(OtherError(inner)) => inner.downcast_ref(),
        _ => None,
    }
}

/// A signature scheme: its name in TLS, the options for the signer, and how a signature is checked.
#[derive(Debug, Clone, Copy)]
pub struct Scheme {
    tls: SignatureScheme,
    options: Options,
    check: &'static dyn SignatureVerificationAlgorithm,
}

/// The schemes that TLS has for a kind of key, best first, as far as the crate's own cryptography can
/// check their signatures.
pub fn schemes(key: KeyKind) -> Vec<Scheme> {
    default_provider().map(|provider| schemes_of(&provider, key)).unwrap_or_default()
}

impl Scheme {
    /// The name in TLS, such as `RSA_PSS_SHA256`.
    pub fn name(&self) -> &'static str {
        self.tls.as_str().unwrap_or("unknown")
    }

    /// Has the signer sign a message, and checks the signature with the certificate's key. Blocks as
    /// [`SignerCertificate::sign`] does.
    pub fn sign(
        &self,
        certificate: &SignerCertificate,
        message: &[u8],
        stop: &Cancel,
    ) -> Result<Vec<u8>, keyward_host::Error> {
        let signature = certificate.sign(message, self.options, stop)?;
        match self.check.verify_signature(&certificate.public_key, message, &signature) {
            Ok(()) => Ok(signature),
            Err(_) => Err(certificate.wrong_signature()),
        }
    }
}

#[derive(Debug)]
struct SignerKey {
    certificate: Arc<SignerCertificate>,
    /// Best first.
    schemes: Arc<[Scheme]>,
}

impl SigningKey for SignerKey {
    /// Always returns a signer: without one rustls would send no certificate, and a server that
    /// admits anonymous clients would silently treat us as one.
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = self.schemes.iter().copied().find(|scheme| offered.contains(&scheme.tls));
        Some(Box::new(HandshakeSigner { certificate: Arc::clone(&self.certificate), scheme }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        algorithm(self.certificate.key)
    }
}

/// Signs one handshake. Without a scheme that the server offers, signing fails.
#[derive(Debug)]
struct HandshakeSigner {
    certificate: Arc<SignerCertificate>,
    scheme: Option<Scheme>,
}

impl Signer for HandshakeSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        let certificate = &self.certificate;
        let Some(scheme) = self.scheme else {
            return Err(wrap(certificate.no_scheme()));
        };
        if !handshake::is_unlocked() {
            return Err(TlsError::General("the signer has to be unlocked first".into()));
        }
        handshake::signing(|stop| scheme.sign(certificate, message, stop)).map_err(wrap)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme.map_or(SignatureScheme::Unknown(0), |scheme| scheme.tls)
    }
}

fn wrap(error: keyward_host::Error) -> TlsError {
    OtherError(Arc::new(error)).into()
}

/// All schemes of a kind of key whose signatures can be checked, best first. SHA-256 leads: weak cards
/// have it, and Go prefers it too.
fn schemes_of(provider: &CryptoProvider, key: KeyKind) -> Vec<Scheme> {
    let (id, schemes): (_, &[_]) = match key {
        KeyKind::Rsa => (
            alg_id::RSA_ENCRYPTION,
            &[
                (SignatureScheme::RSA_PSS_SHA256, Options::Pss(Hash::Sha256)),
                (SignatureScheme::RSA_PSS_SHA384, Options::Pss(Hash::Sha384)),
                (SignatureScheme::RSA_PSS_SHA512, Options::Pss(Hash::Sha512)),
                (SignatureScheme::RSA_PKCS1_SHA256, Options::Digest(Hash::Sha256)),
                (SignatureScheme::RSA_PKCS1_SHA384, Options::Digest(Hash::Sha384)),
                (SignatureScheme::RSA_PKCS1_SHA512, Options::Digest(Hash::Sha512)),
            ],
        ),
        KeyKind::P256 => (
            alg_id::ECDSA_P256,
            &[(SignatureScheme::ECDSA_NISTP256_SHA256, Options::Digest(Hash::Sha256))],
        ),
        KeyKind::P384 => (
            alg_id::ECDSA_P384,
            &[(SignatureScheme::ECDSA_NISTP384_SHA384, Options::Digest(Hash::Sha384))],
        ),
        KeyKind::P521 => (
            alg_id::ECDSA_P521,
            &[(SignatureScheme::ECDSA_NISTP521_SHA512, Options::Digest(Hash::Sha512))],
        ),
        KeyKind::Ed25519 => (alg_id::ED25519, &[(SignatureScheme::ED25519, Options::Message)]),
    };
    schemes
        .iter()
        .filter_map(|&(tls, options)| {
            let check = check(provider, tls, id)?;
            Some(Scheme { tls, options, check })
        })
        .collect()
}

fn check(
    provider: &CryptoProvider,
    scheme: SignatureScheme,
    key: AlgorithmIdentifier,
) -> Option<&'static dyn SignatureVerificationAlgorithm> {
    let known = provider.signature_verification_algorithms.mapping.iter();
    let fitting = known
        .filter(|(known, _)| *known == scheme)
        .flat_map(|(_, checks)| checks.iter().copied())
        .find(|check| check.public_key_alg_id() == key);
    match fitting {
        None if scheme == SignatureScheme::ECDSA_NISTP521_SHA512 => Some(&P521_SHA512),
        other => other,
    }
}

const fn algorithm(key: KeyKind) -> SignatureAlgorithm {
    match key {
        KeyKind::Rsa => SignatureAlgorithm::RSA,
        KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => SignatureAlgorithm::ECDSA,
        KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
    }
}
