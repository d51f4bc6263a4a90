//! A key that somebody else holds, for rustls.

use std::{fmt, sync::Arc};

use keyward_host::signer::{Hash, Identity, KeyKind, Options};
use keyward_process::runner::Cancel;
use rustls::{
    Error as TlsError, OtherError, SignatureAlgorithm, SignatureScheme,
    crypto::CryptoProvider,
    pki_types::{AlgorithmIdentifier, CertificateDer, SignatureVerificationAlgorithm, alg_id},
    sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey},
};

use super::{default_provider, ecdsa::P521_SHA512, handshake};

/// Shows the identity's certificate in every handshake that asks for one.
pub(super) fn resolver(provider: &CryptoProvider, identity: &Arc<Identity>) -> SingleCertAndKey {
    let chain = identity.chain.iter().cloned().map(CertificateDer::from).collect();
    let key = Key { identity: Arc::clone(identity), ways: ways_of(provider, identity.key).into() };
    SingleCertAndKey::from(CertifiedKey::new(chain, Arc::new(key)))
}

/// The host's error in a failed handshake, where a signature was what failed.
pub(crate) fn failure(error: &std::io::Error) -> Option<&keyward_host::Error> {
    match error.get_ref()?.downcast_ref()? {
        TlsError::Other(OtherError(inner)) => inner.downcast_ref(),
        _ => None,
    }
}

/// A way to sign: its name in TLS, what the signer is told, and how the result is checked.
#[derive(Clone, Copy)]
pub struct Way {
    scheme: SignatureScheme,
    options: Options,
    check: &'static dyn SignatureVerificationAlgorithm,
}

/// The ways that TLS knows for a kind of key, best first, as far as their results can be checked
/// with the crate's own cryptography.
pub fn ways(key: KeyKind) -> Vec<Way> {
    default_provider().map(|provider| ways_of(&provider, key)).unwrap_or_default()
}

impl Way {
    /// Its name in TLS, such as `RSA_PSS_SHA256`.
    pub fn name(&self) -> &'static str {
        self.scheme.as_str().unwrap_or("unknown")
    }

    /// Has the signer sign a message, and checks what it returns with the certificate's key. Blocks
    /// as [`Identity::sign`] does.
    pub fn sign(
        &self,
        identity: &Identity,
        message: &[u8],
        stop: &Cancel,
    ) -> Result<Vec<u8>, keyward_host::Error> {
        let signature = identity.sign(message, self.options, stop)?;
        match self.check.verify_signature(&identity.public_key, message, &signature) {
            Ok(()) => Ok(signature),
            Err(_) => Err(identity.wrong_signature()),
        }
    }
}

struct Key {
    identity: Arc<Identity>,
    /// Best first.
    ways: Arc<[Way]>,
}

impl SigningKey for Key {
    /// Always an answer: without one rustls would send no certificate, and a server that lets
    /// strangers in would take us for one of them without a word.
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let way = self.ways.iter().copied().find(|way| offered.contains(&way.scheme));
        Some(Box::new(Pen { identity: Arc::clone(&self.identity), way }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        algorithm(self.identity.key)
    }
}

/// What signs one handshake; without a way that the server knows it fails when it is used.
struct Pen {
    identity: Arc<Identity>,
    way: Option<Way>,
}

impl Signer for Pen {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        let identity = &self.identity;
        let Some(way) = self.way else {
            return Err(wrap(identity.no_scheme()));
        };
        if !handshake::is_unlocked() {
            return Err(TlsError::General("the signer has to be unlocked first".into()));
        }
        handshake::signing(|stop| way.sign(identity, message, stop)).map_err(wrap)
    }

    fn scheme(&self) -> SignatureScheme {
        self.way.map_or(SignatureScheme::Unknown(0), |way| way.scheme)
    }
}

fn wrap(error: keyward_host::Error) -> TlsError {
    OtherError(Arc::new(error)).into()
}

/// All ways of a kind of key whose results can be checked, best first. SHA-256 leads: it is what
/// weak cards have, and what Go takes too.
fn ways_of(provider: &CryptoProvider, key: KeyKind) -> Vec<Way> {
    let (id, ways): (_, &[_]) = match key {
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
    ways.iter()
        .filter_map(|&(scheme, options)| {
            let check = check(provider, scheme, id)?;
            Some(Way { scheme, options, check })
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

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Way").field(&self.scheme).finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.identity).finish()
    }
}

impl fmt::Debug for Pen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.way.map(|way| way.scheme);
        f.debug_struct("Pen").field("scheme", &scheme).finish_non_exhaustive()
    }
}
