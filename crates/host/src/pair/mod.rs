//! A certificate chain and its key, parsed and proved to belong together.

mod key;
mod rsa;

use std::fmt;

use jiff::Timestamp;
use keyward_protocol::{
    Secret,
    exec::PemPair,
    pem,
    text::from_base64,
    x509::{self, Certificate},
};
use zeroize::Zeroizing;

use key::PublicHalf;

use crate::{Error, Kind};

/// A certificate chain with the key of its leaf.
pub struct Pair {
    /// The chain in DER, leaf first. Only the leaf was parsed.
    pub chain: Vec<Vec<u8>>,
    /// The key in DER, PKCS#8 or PKCS#1.
    pub key: KeyDer,
    /// From when the leaf is valid.
    pub not_before: Timestamp,
    /// Until when the leaf is valid.
    pub not_after: Timestamp,
    /// The leaf's common name, for people.
    pub common_name: Option<String>,
    /// The text forms, as they came.
    pub pem: PemPair,
}

/// A certificate as Go's parser accepts it.
pub(crate) fn read_certificate(der: &[u8]) -> Option<Certificate<'_>> {
    Certificate::parse(der).filter(|certificate| key::exists(certificate.public_key.key))
}

/// What is wrong with an answered certificate of these dates, if it is not valid now.
pub(crate) fn outside_validity(
    not_before: Timestamp,
    not_after: Timestamp,
    now: Timestamp,
) -> Option<String> {
    if now > not_after {
        Some(format!("answered a certificate that expired at {not_after}"))
    } else if now < not_before {
        Some(format!("answered a certificate that is not valid before {not_before}"))
    } else {
        None
    }
}

/// A private key in DER, wiped when dropped.
pub enum KeyDer {
    /// What mostly stands in a `PRIVATE KEY` block. Keys on curves always take this form, with their
    /// public point, whatever form they came in.
    Pkcs8(Zeroizing<Vec<u8>>),
    /// What mostly stands in an `RSA PRIVATE KEY` block.
    Pkcs1(Zeroizing<Vec<u8>>),
}

impl Pair {
    /// Parses both as Go's `tls.X509KeyPair` does and checks that the key is the leaf's (OD-12, OD-14).
    ///
    /// Whether the certificate is valid today is not asked here.
    pub fn parse(certificate: &str, key: &Secret) -> Result<Self, Error> {
        let chain = certificates(certificate)?;
        let (block, is_encrypted) = key_block(key.expose())?;
        let leaf = read_certificate(&chain[0])
            .ok_or_else(|| error("the first certificate is malformed"))?;
        let key_der = PublicHalf::parse(&block).map_err(|what| {
            let what = if is_encrypted { "it is encrypted" } else { what };
            error(&format!("the private key cannot be read: {what}"))
        })?;
        key_der.key.check(leaf.public_key.key).map_err(error)?;
        let (not_before, not_after) = (leaf.not_before, leaf.not_after);
        let common_name = leaf.subject.common_name().map(str::to_owned);
        Ok(Self {
            key: key_der.der,
            not_before,
            not_after,
            common_name,
            pem: PemPair { certificate: certificate.to_owned(), key: key.clone() },
            chain,
        })
    }
}

/// The certificates of a bundle of authorities in DER, as Go reads one: what is not a well-formed
/// certificate is passed over. Empty if there is none.
pub fn read_authorities(pem: &[u8]) -> Vec<Vec<u8>> {
    x509::bundle(pem).filter(|der| read_certificate(der).is_some()).collect()
}

/// The `CERTIFICATE` blocks, at least one; others are skipped.
fn certificates(text: &str) -> Result<Vec<Vec<u8>>, Error> {
    let mut chain = Vec::new();
    let mut skipped = Vec::new();
    for block in pem::Blocks::of(text.as_bytes()) {
        if block.label == "CERTIFICATE" {
            chain.push(block.content.to_vec());
        } else {
            skipped.push(block.label);
        }
    }
    match (chain.is_empty(), skipped.as_slice()) {
        (false, _) => Ok(chain),
        (true, []) if is_encoded(text) => {
            Err(error("the certificate is a PEM in base64: give the PEM itself"))
        }
        (true, []) => Err(error("there is no PEM block where the certificate should be")),
        (true, [label]) if label.ends_with("PRIVATE KEY") => {
            Err(error("there is a private key where the certificate should be"))
        }
        (true, _) => Err(error("there is no `CERTIFICATE` among the PEM blocks")),
    }
}

/// The content of the first block that calls itself a private key, and whether it says that it is
/// encrypted.
fn key_block(text: &str) -> Result<(Zeroizing<Vec<u8>>, bool), Error> {
    let mut labels = Vec::new();
    for block in pem::Blocks::of(text.as_bytes()) {
        if block.label == "PRIVATE KEY" || block.label.ends_with(" PRIVATE KEY") {
            let is_encrypted = block.is_encrypted || block.label.starts_with("ENCRYPTED ");
            return Ok((block.content, is_encrypted));
        }
        labels.push(block.label);
    }
    Err(error(match labels.as_slice() {
        [] if is_encoded(text) => "the private key is a PEM in base64: give the PEM itself",
        [] => "there is no PEM block where the private key should be",
        [label] if label == "CERTIFICATE" => {
            "there is a certificate where the private key should be"
        }
        _ => "there is no private key among the PEM blocks",
    }))
}

/// Whether a text is a PEM in base64, as kubeconfigs have it in their `…-data` fields.
fn is_encoded(text: &str) -> bool {
    from_base64(text.trim().as_bytes()).is_some_and(|pem| {
        let pem = Zeroizing::new(pem);
        pem.starts_with(b"-----BEGIN ")
    })
}

/// Carries no text of the certificate or the key.
fn error(what: &str) -> Error {
    Error::new(Kind::BadConfig, what)
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("common_name", &self.common_name).finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyDer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}
