//! How a key signs.

use keyward_plugin::{Hash, Options, Refusal};
use keyward_protocol::x509::{Certificate, Curve, PublicKey};

use super::certificate::Chain;

/// A way to sign a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// RSA-PSS, MGF1 with the same hash, a salt as long as the hash.
    Pss(Hash),
    /// RSA PKCS#1 v1.5.
    Pkcs1(Hash),
    /// ECDSA. The services tie each curve to one hash.
    Ecdsa(Hash),
}

impl Scheme {
    /// The way to sign as a client asks for, with the key of this certificate.
    pub(super) fn of(chain: &Chain, options: Options) -> Result<Self, Refusal> {
        let certificate = Certificate::parse(&chain.leaf);
        let key = certificate.as_ref().map(|certificate| certificate.public_key.key);
        let scheme = match (key, options) {
            (Some(PublicKey::Rsa { .. }), Options::Pss(hash)) => Some(Self::Pss(hash)),
            (Some(PublicKey::Rsa { .. }), Options::Digest(hash)) => Some(Self::Pkcs1(hash)),
            (Some(PublicKey::Ec { curve, .. }), Options::Digest(hash)) => {
                (hash_of(curve) == Some(hash)).then_some(Self::Ecdsa(hash))
            }
            _ => None,
        };
        scheme.ok_or_else(|| {
            Refusal::Unsupported(
                "the key cannot sign as it is asked to: it is RSA, or ECDSA with the hash of its curve"
                    .into(),
            )
        })
    }
}

/// The hash that goes with a curve.
fn hash_of(curve: Curve) -> Option<Hash> {
    match curve {
        Curve::P224 => None,
        Curve::P256 => Some(Hash::Sha256),
        Curve::P384 => Some(Hash::Sha384),
        Curve::P521 => Some(Hash::Sha512),
    }
}
