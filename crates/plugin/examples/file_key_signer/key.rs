//! A private key in memory, and every signature scheme that TLS has for it.

use getrandom::{SysRng, rand_core::UnwrapErr};
use keyward_plugin::{Hash, Options, Refusal};
use p256::ecdsa::signature::{Signer as _, hazmat::PrehashSigner};
use rsa::{Pkcs1v15Sign, Pss, RsaPrivateKey, pkcs8::DecodePrivateKey};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use sha2::{Sha256, Sha384, Sha512};

pub(crate) enum Key {
    Rsa(Box<RsaPrivateKey>),
    P256(p256::ecdsa::SigningKey),
    P384(p384::ecdsa::SigningKey),
    P521(Box<p521::ecdsa::SigningKey>),
    Ed25519(ed25519_dalek::SigningKey),
}

impl Key {
    /// The key in a PKCS#8 block of PEM, whatever its kind.
    pub(crate) fn read(pem: &str) -> Result<Self, Refusal> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| Refusal::BadConfig("the key is not a PKCS#8 block of PEM".into()))?;
        let der = key.secret_pkcs8_der();
        RsaPrivateKey::from_pkcs8_der(der)
            .map(|key| Self::Rsa(Box::new(key)))
            .or_else(|_| DecodePrivateKey::from_pkcs8_der(der).map(Self::P256))
            .or_else(|_| DecodePrivateKey::from_pkcs8_der(der).map(Self::P384))
            .or_else(|_| DecodePrivateKey::from_pkcs8_der(der).map(|key| Self::P521(Box::new(key))))
            .or_else(|_| DecodePrivateKey::from_pkcs8_der(der).map(Self::Ed25519))
            .map_err(|_| Refusal::BadConfig("the key is of an unsupported kind".into()))
    }

    pub(crate) fn sign(&self, digest: &[u8], options: Options) -> Result<Vec<u8>, Refusal> {
        match (self, options) {
            (Self::Rsa(key), Options::Pss(hash)) => {
                let random = &mut UnwrapErr(SysRng);
                let signature = match hash {
                    Hash::Sha256 => key.sign_with_rng(random, Pss::<Sha256>::new(), digest),
                    Hash::Sha384 => key.sign_with_rng(random, Pss::<Sha384>::new(), digest),
                    Hash::Sha512 => key.sign_with_rng(random, Pss::<Sha512>::new(), digest),
                };
                signature.map_err(Refusal::failed)
            }
            (Self::Rsa(key), Options::Digest(hash)) => {
                let padding = match hash {
                    Hash::Sha256 => Pkcs1v15Sign::new::<Sha256>(),
                    Hash::Sha384 => Pkcs1v15Sign::new::<Sha384>(),
                    Hash::Sha512 => Pkcs1v15Sign::new::<Sha512>(),
                };
                key.sign(padding, digest).map_err(Refusal::failed)
            }
            (Self::P256(key), Options::Digest(_)) => {
                let signature: p256::ecdsa::DerSignature =
                    key.sign_prehash(digest).map_err(Refusal::failed)?;
                Ok(signature.as_bytes().to_vec())
            }
            (Self::P384(key), Options::Digest(_)) => {
                let signature: p384::ecdsa::DerSignature =
                    key.sign_prehash(digest).map_err(Refusal::failed)?;
                Ok(signature.as_bytes().to_vec())
            }
            (Self::P521(key), Options::Digest(_)) => {
                let signature: p521::ecdsa::DerSignature =
                    key.sign_prehash(digest).map_err(Refusal::failed)?;
                Ok(signature.as_bytes().to_vec())
            }
            (Self::Ed25519(key), Options::Message) => Ok(key.sign(digest).to_bytes().to_vec()),
            _ => Err(Refusal::Unsupported("the key cannot sign in this way".into())),
        }
    }
}
