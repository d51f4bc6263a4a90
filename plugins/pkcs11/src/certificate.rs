//! Certificates in tokens and files.

use jiff::Timestamp;
use keyward_protocol::{
    der::{self, Der},
    pem::Blocks,
    x509,
};

use crate::public::Public;

/// The parts of a certificate that decide whether and with what it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The whole certificate in DER.
    pub(crate) der: Vec<u8>,
    /// The name of its issuer, in DER.
    pub(crate) issuer: Vec<u8>,
    /// The name of its subject, in DER.
    pub(crate) subject: Vec<u8>,
    /// The name of its subject, for people, as in `O=devs, CN=jane`.
    pub(crate) subject_text: String,
    /// The serial number, in DER.
    pub(crate) serial: Vec<u8>,
    pub(crate) public: Public,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Certificate {
    /// Parses DER; `None` if it is malformed, or for a kind of key that is not supported.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        // Some modules pad the value to the length of the card's file.
        let der = Der(bytes).whole(der::SEQUENCE)?;
        let read = x509::Certificate::parse(der)?;
        Some(Self {
            der: der.to_vec(),
            issuer: read.issuer.der.to_vec(),
            subject: read.subject.der.to_vec(),
            subject_text: read.subject.to_string(),
            serial: der::element(der::INTEGER, &[read.serial]),
            public: Public::of(&read.public_key)?,
            from: read.not_before,
            until: read.not_after,
        })
    }

    /// Whether the certificate is its own issuer: a root, which need not be sent.
    pub(crate) fn is_root(&self) -> bool {
        self.issuer == self.subject
    }

    /// Whether the certificate is valid at this time.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        self.from <= now && now <= self.until
    }
}

/// The certificates in a file: PEM, or one in DER. `None` if there is none, or one of them cannot be
/// read.
pub(crate) fn from_file(bytes: &[u8]) -> Option<Vec<Certificate>> {
    if bytes.first() == Some(&der::SEQUENCE) {
        return Some(vec![Certificate::parse(bytes)?]);
    }
    let found: Vec<_> = Blocks::of(bytes)
        .filter(|block| block.label == "CERTIFICATE")
        .map(|block| Certificate::parse(&block.content))
        .collect::<Option<_>>()?;
    (!found.is_empty()).then_some(found)
}
