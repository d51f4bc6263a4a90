//! Certificate requests (PKCS#10), signed by the key they are about.

use keyward_plugin::{Hash, Options, Refusal};
use keyward_protocol::{der, pem};

use crate::{
    public::{Kind, Public},
    verify,
};

/// Who the certificate is to be for. Kubernetes reads the user's name from the common name and the
/// groups from the organisations.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// `CN`
    pub(crate) user: String,
    /// `O`, each
    pub(crate) groups: Vec<String>,
}

/// The request in PEM. `sign` makes the signature.
pub(crate) fn build(
    subject: &Subject,
    public: &Public,
    sign: impl FnOnce(Options, &[u8]) -> Result<Vec<u8>, Refusal>,
) -> Result<String, Refusal> {
    let version = der::integer(&[0]);
    let attributes = der::element(der::wrapped(0), &[]);
    let body =
        der::element(der::SEQUENCE, &[&version, &subject.name(), &public.info(), &attributes]);
    let (options, algorithm) = algorithm(public.kind);
    let signature = sign(options, &verify::to_sign(options, &body))?;
    if !verify::verify(public, options, &body, &signature) {
        return Err(Refusal::failed("the token's signature is not one of this key"));
    }
    let whole = der::element(der::SEQUENCE, &[&body, &algorithm, &der::bit_string(&signature)]);
    Ok(pem::encode("CERTIFICATE REQUEST", &whole))
}

impl Subject {
    fn name(&self) -> Vec<u8> {
        let part = |kind: u8, value: &str| {
            let kind = der::element(der::OID, &[&[0x55, 4, kind]]);
            let value = der::element(der::UTF8_STRING, &[value.as_bytes()]);
            der::element(der::SET, &[&der::element(der::SEQUENCE, &[&kind, &value])])
        };
        let mut parts: Vec<u8> = self.groups.iter().flat_map(|group| part(10, group)).collect();
        parts.extend(part(3, &self.user));
        der::element(der::SEQUENCE, &[&parts])
    }
}

/// How a request is signed by a key of this kind, and the name of that in DER. PKCS#1 v1.5 for RSA,
/// because every authority reads it.
fn algorithm(kind: Kind) -> (Options, Vec<u8>) {
    const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    let named = |parts: &[&[u8]], after: &[u8]| {
        der::element(der::SEQUENCE, &[&der::element(der::OID, parts), after])
    };
    match kind {
        Kind::Rsa(_) => (Options::Digest(Hash::Sha256), named(&[RSA_SHA256], der::NULL)),
        Kind::P256 => (Options::Digest(Hash::Sha256), named(&[ECDSA, &[2]], &[])),
        Kind::P384 => (Options::Digest(Hash::Sha384), named(&[ECDSA, &[3]], &[])),
        Kind::P521 => (Options::Digest(Hash::Sha512), named(&[ECDSA, &[4]], &[])),
        Kind::Ed25519 => (Options::Message, named(&[ED25519], &[])),
    }
}
