//! Checks signatures in software, against the public half of a key.

use keyward_plugin::{Hash, Options};
use p521::ecdsa::signature::hazmat::PrehashVerifier as _;
use ring::signature::{self as algorithms, UnparsedPublicKey, VerificationAlgorithm};

use crate::{
    pss,
    public::{Kind, Public},
};

/// What to sign for a test: the digest of a message, or the message under [`Options::Message`].
pub(crate) fn to_sign(options: Options, message: &[u8]) -> Vec<u8> {
    match options.hash() {
        Some(hash) => pss::digest(hash, &[message]),
        None => message.to_vec(),
    }
}

/// Whether this is the key's signature over the message.
pub(crate) fn verify(public: &Public, options: Options, message: &[u8], signature: &[u8]) -> bool {
    let algorithm: &dyn VerificationAlgorithm = match (public.kind, options) {
        (Kind::Rsa(_), Options::Pss(Hash::Sha256)) => &algorithms::RSA_PSS_2048_8192_SHA256,
        (Kind::Rsa(_), Options::Pss(Hash::Sha384)) => &algorithms::RSA_PSS_2048_8192_SHA384,
        (Kind::Rsa(_), Options::Pss(Hash::Sha512)) => &algorithms::RSA_PSS_2048_8192_SHA512,
        (Kind::Rsa(_), Options::Digest(Hash::Sha256)) => &algorithms::RSA_PKCS1_2048_8192_SHA256,
        (Kind::Rsa(_), Options::Digest(Hash::Sha384)) => &algorithms::RSA_PKCS1_2048_8192_SHA384,
        (Kind::Rsa(_), Options::Digest(Hash::Sha512)) => &algorithms::RSA_PKCS1_2048_8192_SHA512,
        (Kind::P256, Options::Digest(Hash::Sha256)) => &algorithms::ECDSA_P256_SHA256_ASN1,
        (Kind::P256, Options::Digest(Hash::Sha384)) => &algorithms::ECDSA_P256_SHA384_ASN1,
        (Kind::P384, Options::Digest(Hash::Sha256)) => &algorithms::ECDSA_P384_SHA256_ASN1,
        (Kind::P384, Options::Digest(Hash::Sha384)) => &algorithms::ECDSA_P384_SHA384_ASN1,
        (Kind::Ed25519, Options::Message) => &algorithms::ED25519,
        (Kind::P521, Options::Digest(hash)) => {
            return verify_p521(&public.bits, &pss::digest(hash, &[message]), signature);
        }
        _ => return false,
    };
    UnparsedPublicKey::new(algorithm, &public.bits).verify(message, signature).is_ok()
}

/// The one curve that `ring` lacks.
fn verify_p521(point: &[u8], digest: &[u8], signature: &[u8]) -> bool {
    use p521::ecdsa::{DerSignature, Signature, VerifyingKey};

    let Ok(key) = VerifyingKey::from_sec1_bytes(point) else { return false };
    let Ok(signature) = DerSignature::try_from(signature) else { return false };
    Signature::try_from(signature)
        .is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok())
}
