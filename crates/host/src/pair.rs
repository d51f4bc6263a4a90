//! A certificate chain and its key, parsed and proved to belong together.

use jiff::Timestamp;
use keyward_protocol::{Secret, exec::PemPair};
use zeroize::Zeroizing;

/// A certificate chain with the key of its leaf.
pub struct Pair {
    /// The chain in DER, leaf first.
    pub chain: Vec<Vec<u8>>,
    /// The key in DER, PKCS#8, PKCS#1 or SEC1.
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

/// A private key in DER, wiped when dropped.
pub enum KeyDer {
    /// `PRIVATE KEY`
    Pkcs8(Zeroizing<Vec<u8>>),
    /// `RSA PRIVATE KEY`
    Pkcs1(Zeroizing<Vec<u8>>),
    /// `EC PRIVATE KEY`
    Sec1(Zeroizing<Vec<u8>>),
}

/// Why a certificate and a key are not a pair. Carries no text of either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairError(pub String);

impl Pair {
    /// Parses both as Go's `tls.X509KeyPair` does and checks that the key is the leaf's (OD-12, OD-14).
    pub fn parse(_certificate: &str, _key: &Secret) -> Result<Self, PairError> {
        todo!()
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("common_name", &self.common_name).finish_non_exhaustive()
    }
}
