use std::fmt;

use super::MessageError;
use crate::Node;

/// How the bytes of a [`super::SignRequest`] are to be signed: `signerOptsType` and `signerOpts`.
///
/// The names on the wire are those of Go's crypto library, from which the protocol was drawn.
/// RSA PKCS#1 v1.5 and ECDSA look alike: the plugin knows its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Options {
    /// RSA-PSS over a digest, MGF1 with the same hash, a salt as long as the hash.
    Pss(Hash),
    /// RSA PKCS#1 v1.5 over a digest, or ECDSA (in ASN.1 DER), as the key is.
    Digest(Hash),
    /// Ed25519: the bytes are the whole message.
    Message,
}

/// A hash function, with the number that Go gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hash {
    /// SHA-256, number 5.
    Sha256,
    /// SHA-384, number 6.
    Sha384,
    /// SHA-512, number 7.
    Sha512,
}

const PSS: &str = "*rsa.PSSOptions";
const PLAIN: &str = "crypto.Hash";

impl Options {
    /// The options of a request without `signerOptsType`.
    pub(super) const DEFAULT_KIND: &str = PSS;

    /// The hash that made the digest; `None` when the message itself is signed.
    pub const fn hash(self) -> Option<Hash> {
        match self {
            Self::Pss(hash) | Self::Digest(hash) => Some(hash),
            Self::Message => None,
        }
    }

    /// `signerOptsType` on the wire.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Pss(_) => PSS,
            Self::Digest(_) | Self::Message => PLAIN,
        }
    }

    /// `signerOpts` on the wire: JSON in a text.
    pub fn value(self) -> String {
        match self {
            Self::Pss(hash) => format!("{{\"SaltLength\":-1,\"Hash\":{}}}", hash.number()),
            Self::Digest(hash) => hash.number().to_string(),
            Self::Message => "0".to_owned(),
        }
    }

    /// Reads the two fields. A salt that is not as long as the hash is refused: TLS knows no other.
    pub(super) fn read(kind: &str, value: &str) -> Result<Self, MessageError> {
        let unreadable = |what: &str| MessageError::Unreadable(what.to_owned());
        let options = Node::from_json(value.as_bytes())
            .map_err(|_| unreadable("`signerOpts` is not JSON in a text"))?;
        // The proposal's text says the type without the star, its sample with it.
        if kind.trim_start_matches('*') == PSS.trim_start_matches('*') {
            let number = |name: &str| match options.get(name) {
                Some(node) => Ok(node.integer(&format!("signerOpts.{name}"))?.unwrap_or(0)),
                None => Ok::<_, MessageError>(0),
            };
            let hash = Hash::from_number(number("Hash")?).ok_or_else(unknown_hash)?;
            let salt = number("SaltLength")?;
            if salt != -1 && usize::try_from(salt) != Ok(hash.length()) {
                return Err(unreadable("`signerOpts.SaltLength` is not the length of the hash"));
            }
            return Ok(Self::Pss(hash));
        }
        if kind == PLAIN {
            return match options.integer("signerOpts")? {
                Some(0) => Ok(Self::Message),
                Some(number) => {
                    Hash::from_number(number).map(Self::Digest).ok_or_else(unknown_hash)
                }
                None => Err(unreadable("`signerOpts` has no hash")),
            };
        }
        Err(unreadable("`signerOptsType` is neither `*rsa.PSSOptions` nor `crypto.Hash`"))
    }
}

fn unknown_hash() -> MessageError {
    MessageError::Unreadable(
        "`signerOpts` has a hash other than SHA-256 (5), SHA-384 (6) and SHA-512 (7)".to_owned(),
    )
}

impl Hash {
    /// All of them, shortest first.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The number in Go's `crypto.Hash`.
    pub const fn number(self) -> u8 {
        match self {
            Self::Sha256 => 5,
            Self::Sha384 => 6,
            Self::Sha512 => 7,
        }
    }

    /// The length of its digests, in bytes.
    pub const fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| i64::from(hash.number()) == number)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA-{}", self.length() * 8)
    }
}
