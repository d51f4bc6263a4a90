//! Private keys in the three forms in which they are found, and the public keys they belong to.

use ed25519_dalek::SigningKey;
use p256::elliptic_curve::sec1::ToSec1Point as _;
use zeroize::Zeroizing;

use super::{
    KeyDer,
    der::{self, Der, wrapped},
    rsa,
};

/// The public half of a private key: enough to compare it with a certificate.
pub(super) enum Key {
    Rsa { modulus: Vec<u8>, exponent: i64 },
    Ec { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

/// A private key that was read: what it is for, and its DER.
pub(super) struct Parsed {
    pub(super) key: Key,
    pub(super) der: KeyDer,
}

/// The curves that the reference knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P224,
    P256,
    P384,
    P521,
}

/// Object identifiers, as DER has them.
pub(super) mod oid {
    pub(in super::super) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    pub(in super::super) const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    pub(in super::super) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    pub(in super::super) const P224: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x21];
    pub(in super::super) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    pub(in super::super) const P384: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x22];
    pub(in super::super) const P521: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x23];
    pub(in super::super) const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    pub(in super::super) const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 14];
    pub(in super::super) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
    pub(in super::super) const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];
    pub(in super::super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
    pub(in super::super) const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 35];
    pub(in super::super) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
}

impl Key {
    /// Tries PKCS#1, PKCS#8 and SEC1 in turn, whatever the block called itself.
    pub(super) fn parse(block: &[u8]) -> Result<Parsed, &'static str> {
        if let Some(key) = rsa::parse(block) {
            let der = KeyDer::Pkcs1(Zeroizing::new(block.to_vec()));
            return Ok(Parsed { key: key?, der });
        }
        if let Some(key) = pkcs8(block) {
            return Ok(Parsed { key: key?, der: KeyDer::Pkcs8(element(block)) });
        }
        if let Some(key) = sec1(None, block) {
            return Ok(Parsed { key: key?, der: KeyDer::Sec1(element(block)) });
        }
        Err("it is neither PKCS#8 nor PKCS#1 nor SEC1")
    }
}

/// The key without what follows it in its block, which the reference ignores.
fn element(block: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Der(block).whole(der::SEQUENCE).unwrap_or(block).to_vec())
}

/// A PKCS#8 key; the outer `None` is something else.
fn pkcs8(block: &[u8]) -> Option<Result<Key, &'static str>> {
    let mut content = Der(block).read(der::SEQUENCE)?;
    content.small()?;
    let mut algorithm = content.read(der::SEQUENCE)?;
    let kind = algorithm.oid()?;
    let Der(key) = content.read(der::OCTET_STRING)?;
    Some(match kind {
        oid::RSA => rsa::parse(key).unwrap_or(Err("its RSA part is malformed")),
        oid::EC => sec1(algorithm.oid(), key).unwrap_or(Err("its EC part is malformed")),
        oid::ED25519 if !algorithm.is_empty() => Err("its Ed25519 part has parameters"),
        oid::ED25519 => {
            let seed = Der(key).read(der::OCTET_STRING).and_then(|seed| seed.0.try_into().ok());
            match seed {
                Some(seed) => {
                    let public = SigningKey::from_bytes(seed).verifying_key();
                    Ok(Key::Ed25519(public.to_bytes().to_vec()))
                }
                None => Err("its Ed25519 part is malformed"),
            }
        }
        _ => Err("it is of a kind that is not supported"),
    })
}

/// A SEC1 key, of `curve` if something outside of it names one; the outer `None` is something else.
fn sec1(curve: Option<&[u8]>, block: &[u8]) -> Option<Result<Key, &'static str>> {
    let mut content = Der(block).read(der::SEQUENCE)?;
    let version = content.small()?;
    let Der(scalar) = content.read(der::OCTET_STRING)?;
    let (mut own, mut written) = (None, None);
    // What is not what it should be counts as left out.
    if let Some(mut inner) = content.wrapping(wrapped(0), der::OID) {
        own = Some(inner.oid()?);
    }
    if let Some(mut inner) = content.wrapping(wrapped(1), der::BIT_STRING) {
        written = Some(inner.bits()?.1);
    }
    if version != 1 {
        return Some(Err("its version of SEC1 is not known"));
    }
    let Some(curve) = curve.or(own).and_then(Curve::named) else {
        return Some(Err("its curve is not known"));
    };
    let point = curve.point(scalar, written).ok_or("its number is not one of the curve");
    Some(point.map(|point| Key::Ec { curve, point }))
}

impl Curve {
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            oid::P224 => Self::P224,
            oid::P256 => Self::P256,
            oid::P384 => Self::P384,
            oid::P521 => Self::P521,
            _ => return None,
        })
    }

    /// Whether these bytes are a point of the curve, uncompressed.
    pub(super) fn has(self, point: &[u8]) -> bool {
        point.first() == Some(&4)
            && match self {
                // No handshake of ours can use this curve.
                Self::P224 => point.len() == 57,
                Self::P256 => p256::PublicKey::from_sec1_bytes(point).is_ok(),
                Self::P384 => p384::PublicKey::from_sec1_bytes(point).is_ok(),
                Self::P521 => p521::PublicKey::from_sec1_bytes(point).is_ok(),
            }
    }

    /// The public point of a private number, uncompressed. Leading zeros may be too many or too
    /// few, as old tools write them.
    fn point(self, scalar: &[u8], written: Option<&[u8]>) -> Option<Vec<u8>> {
        let size = match self {
            Self::P224 => 28,
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        };
        let zeros = scalar.len().saturating_sub(size);
        if scalar[..zeros].iter().any(|&byte| byte != 0) {
            return None;
        }
        let scalar = &scalar[zeros..];
        let mut padded = Zeroizing::new(vec![0; size]);
        padded[size - scalar.len()..].copy_from_slice(scalar);
        match self {
            // No handshake of ours can use this curve; the point that the key carries is enough to
            // tell whether the two belong together.
            Self::P224 => written.map(<[u8]>::to_vec),
            Self::P256 => {
                let key = p256::SecretKey::from_slice(&padded).ok()?;
                Some(key.public_key().to_sec1_point(false).as_bytes().to_vec())
            }
            Self::P384 => {
                let key = p384::SecretKey::from_slice(&padded).ok()?;
                Some(key.public_key().to_sec1_point(false).as_bytes().to_vec())
            }
            Self::P521 => {
                let key = p521::SecretKey::from_slice(&padded).ok()?;
                Some(key.public_key().to_sec1_point(false).as_bytes().to_vec())
            }
        }
    }
}
