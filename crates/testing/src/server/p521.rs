//! Signatures on P-521, which ring does not check.

use std::sync::{Arc, OnceLock};

use p521::ecdsa::{DerSignature, VerifyingKey, signature::Verifier};
use rustls::{
    SignatureScheme,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring},
    pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id},
};

/// What the server computes with: ring, and P-521 for the certificates of clients.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(with(ring::default_provider()))).clone()
}

/// Adds signatures on P-521 to a provider. What it adds lives as long as the process.
fn with(mut provider: CryptoProvider) -> CryptoProvider {
    let known = provider.signature_verification_algorithms;
    let all: &'static [_] = [known.all, ALL].concat().leak();
    let mapping: &'static [_] =
        [known.mapping, &[(SignatureScheme::ECDSA_NISTP521_SHA512, ALL)]].concat().leak();
    provider.signature_verification_algorithms = WebPkiSupportedAlgorithms { all, mapping };
    provider
}

const ALL: &[&dyn SignatureVerificationAlgorithm] = &[&P521];

#[derive(Debug)]
struct P521;

impl SignatureVerificationAlgorithm for P521 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = DerSignature::from_bytes(signature).map_err(|_| InvalidSignature)?;
        key.verify(message, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA512
    }
}
