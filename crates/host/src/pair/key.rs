//! Private keys in the three forms in which they are found, and the public keys they belong to.

use ed25519_dalek::SigningKey;
use keyward_protocol::{
    der::{self, Der, wrapped},
    x509::{Curve, PublicKey, oid},
};
use p256::elliptic_curve::sec1::ToSec1Point as _;
use zeroize::Zeroizing;

use super::{KeyDer, rsa};

/// The public half of a private key: enough to compare it with a certificate.
pub(super) enum PublicHalf {
    Rsa { modulus: Vec<u8>, exponent: i64 },
    Ec { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

/// A private key that was read: what it is for, and its DER.
pub(super) struct Parsed {
    pub(super) key: PublicHalf,
    pub(super) der: KeyDer,
}

impl PublicHalf {
    /// Tries PKCS#1, PKCS#8 and SEC1 in turn, whatever the block called itself.
    pub(super) fn parse(block: &[u8]) -> Result<Parsed, &'static str> {
        if let Some(key) = rsa::parse(block) {
            let der = KeyDer::Pkcs1(Zeroizing::new(block.to_vec()));
            return Ok(Parsed { key: key?, der });
        }
        pkcs8(block)
            .or_else(|| sec1(None, block))
            .unwrap_or(Err("it is neither PKCS#8 nor PKCS#1 nor SEC1"))
    }

    /// Whether it is the key of a certificate with this public key.
    pub(super) fn check(&self, public: PublicKey<'_>) -> Result<(), &'static str> {
        let same = match (public, self) {
            (
                PublicKey::Rsa { modulus, exponent },
                Self::Rsa { modulus: own, exponent: own_exponent },
            ) => modulus == own && exponent == *own_exponent,
            (PublicKey::Ec { curve, point }, Self::Ec { curve: own, point: own_point }) => {
                curve == *own && point == own_point
            }
            (PublicKey::Ed25519(public), Self::Ed25519(own)) => public[..] == own[..],
            (PublicKey::Other, _) => {
                return Err("the certificate is for a kind of key that is not supported");
            }
            _ => return Err("the private key is of another kind than the certificate's"),
        };
        if same { Ok(()) } else { Err("the private key is not the certificate's") }
    }
}

/// The key without what follows it in its block, which the reference ignores.
fn element(block: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Der(block).whole(der::SEQUENCE).unwrap_or(block).to_vec())
}

/// A PKCS#8 key; the outer `None` is something else.
fn pkcs8(block: &[u8]) -> Option<Result<Parsed, &'static str>> {
    let mut content = Der(block).read(der::SEQUENCE)?;
    content.small()?;
    let mut algorithm = content.read(der::SEQUENCE)?;
    let kind = algorithm.oid()?;
    let Der(key) = content.read(der::OCTET_STRING)?;
    let as_it_is = |key| Parsed { key, der: KeyDer::Pkcs8(element(block)) };
    Some(match kind {
        oid::RSA => rsa::parse(key).unwrap_or(Err("its RSA part is malformed")).map(as_it_is),
        oid::EC => sec1(algorithm.oid(), key).unwrap_or(Err("its EC part is malformed")),
        oid::ED25519 if !algorithm.is_empty() => Err("its Ed25519 part has parameters"),
        oid::ED25519 => {
            let seed = Der(key).read(der::OCTET_STRING).and_then(|seed| seed.0.try_into().ok());
            match seed {
                Some(seed) => {
                    let public = SigningKey::from_bytes(seed).verifying_key();
                    Ok(as_it_is(PublicHalf::Ed25519(public.to_bytes().to_vec())))
                }
                None => Err("its Ed25519 part is malformed"),
            }
        }
        _ => Err("it is of a kind that is not supported"),
    })
}

/// A SEC1 key, of `curve` if something outside of it names one; the outer `None` is something else.
fn sec1(curve: Option<&[u8]>, block: &[u8]) -> Option<Result<Parsed, &'static str>> {
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
    let Some(scalar) = padded(curve, scalar) else { return Some(Err(NOT_OF_THE_CURVE)) };
    let point = point(curve, &scalar, written).ok_or(NOT_OF_THE_CURVE);
    Some(point.map(|point| Parsed {
        der: KeyDer::Pkcs8(canonical(curve, &scalar, &point)),
        key: PublicHalf::Ec { curve, point },
    }))
}

const NOT_OF_THE_CURVE: &str = "its number is not one of the curve";

/// The private number at the length of its curve. Leading zeros may be too many or too few, as old
/// tools write them.
fn padded(curve: Curve, scalar: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let size = curve.coordinate();
    let zeros = scalar.len().saturating_sub(size);
    if scalar[..zeros].iter().any(|&byte| byte != 0) {
        return None;
    }
    let scalar = &scalar[zeros..];
    let mut padded = Zeroizing::new(vec![0; size]);
    padded[size - scalar.len()..].copy_from_slice(scalar);
    Some(padded)
}

/// A key on a curve in the one form that every library reads: PKCS#8 around a number of full length
/// with its public point. Go reads keys that lack some of it.
fn canonical(curve: Curve, scalar: &[u8], point: &[u8]) -> Zeroizing<Vec<u8>> {
    let element = |tag, contents: &[&[u8]]| Zeroizing::new(der::element(tag, contents));
    let number = element(der::OCTET_STRING, &[scalar]);
    let public = der::element(wrapped(1), &[&der::bit_string(point)]);
    let key = element(der::SEQUENCE, &[&der::integer(&[1]), &number, &public]);
    let names = [oid::EC, curve.oid()].map(|name| der::element(der::OID, &[name]));
    let algorithm = der::element(der::SEQUENCE, &[&names[0], &names[1]]);
    let packed = element(der::OCTET_STRING, &[&key]);
    element(der::SEQUENCE, &[&der::integer(&[0]), &algorithm, &packed])
}

/// Whether a public key is one that its kind has: Go's parser rejects points beside their curve.
pub(super) fn exists(public: PublicKey<'_>) -> bool {
    let PublicKey::Ec { curve, point } = public else { return true };
    match curve {
        // No handshake of ours can use this curve.
        Curve::P224 => true,
        Curve::P256 => p256::PublicKey::from_sec1_bytes(point).is_ok(),
        Curve::P384 => p384::PublicKey::from_sec1_bytes(point).is_ok(),
        Curve::P521 => p521::PublicKey::from_sec1_bytes(point).is_ok(),
    }
}

/// The public point of a private number of full length, uncompressed.
fn point(curve: Curve, scalar: &[u8], written: Option<&[u8]>) -> Option<Vec<u8>> {
    match curve {
        // No handshake of ours can use this curve; the point that the key carries is enough to
        // tell whether the two belong together.
        Curve::P224 => written.map(<[u8]>::to_vec),
        Curve::P256 => {
            let key = p256::SecretKey::from_slice(scalar).ok()?;
            Some(key.public_key().to_sec1_point(false).as_bytes().to_vec())
        }
        Curve::P384 => {
            let key = p384::SecretKey::from_slice(scalar).ok()?;
            Some(key.public_key().to_sec1_point(false).as_bytes().to_vec())
        }
        Curve::P521 => {
            let key = p521::SecretKey::from_slice(scalar).ok()?;
            Some(key.public_key().to_sec1_point(false).as_bytes().to_vec())
        }
    }
}
