use super::{Curve, PublicKey, PublicKeyInfo, oid};
use crate::{
    der, pem,
    signer::{Hash, Options},
};

/// A certificate request (PKCS#10) that is not signed yet. Kubernetes reads the user's name from the common
/// name and the groups from the organisations.
///
/// Sign [`CertificateRequest::body`] as [`CertificateRequest::options`] say, then
/// [`CertificateRequest::finish`].
#[derive(Debug, Clone)]
pub struct CertificateRequest {
    body: Vec<u8>,
    options: Options,
    algorithm: Vec<u8>,
}

impl CertificateRequest {
    /// A request for a certificate of this key; `None` for a kind of key that cannot sign it.
    pub fn new(user: &str, groups: &[String], key: &PublicKeyInfo<'_>) -> Option<Self> {
        let (options, algorithm) = algorithm(key.key)?;
        let version = der::integer(&[0]);
        let attributes = der::element(der::wrapped(0), &[]);
        let body =
            der::element(der::SEQUENCE, &[&version, &subject(user, groups), key.der, &attributes]);
        Some(Self { body, options, algorithm })
    }

    /// What is signed.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// How it is signed: RSA by PKCS#1 v1.5, because every authority reads that.
    pub fn options(&self) -> Options {
        self.options
    }

    /// The request in PEM, with its signature.
    pub fn finish(&self, signature: &[u8]) -> String {
        let signature = der::bit_string(signature);
        let whole = der::element(der::SEQUENCE, &[&self.body, &self.algorithm, &signature]);
        pem::encode("CERTIFICATE REQUEST", &whole)
    }
}

fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let part = |kind: &[u8], value: &str| {
        let kind = der::element(der::OID, &[kind]);
        let value = der::element(der::UTF8_STRING, &[value.as_bytes()]);
        der::element(der::SET, &[&der::element(der::SEQUENCE, &[&kind, &value])])
    };
    let mut parts: Vec<u8> =
        groups.iter().flat_map(|group| part(oid::ORGANIZATION, group)).collect();
    parts.extend(part(oid::COMMON_NAME, user));
    der::element(der::SEQUENCE, &[&parts])
}

/// How a request is signed by a key of this kind, and the name of that in DER.
fn algorithm(key: PublicKey<'_>) -> Option<(Options, Vec<u8>)> {
    const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    let named = |parts: &[&[u8]], after: &[u8]| {
        der::element(der::SEQUENCE, &[&der::element(der::OID, parts), after])
    };
    let digest = Options::Digest;
    Some(match key {
        PublicKey::Rsa { .. } => (digest(Hash::Sha256), named(&[RSA_SHA256], der::NULL)),
        PublicKey::Ec { curve: Curve::P256, .. } => {
            (digest(Hash::Sha256), named(&[ECDSA, &[2]], &[]))
        }
        PublicKey::Ec { curve: Curve::P384, .. } => {
            (digest(Hash::Sha384), named(&[ECDSA, &[3]], &[]))
        }
        PublicKey::Ec { curve: Curve::P521, .. } => {
            (digest(Hash::Sha512), named(&[ECDSA, &[4]], &[]))
        }
        PublicKey::Ed25519(_) => (Options::Message, named(&[oid::ED25519], &[])),
        PublicKey::Ec { .. } | PublicKey::Other => return None,
    })
}
