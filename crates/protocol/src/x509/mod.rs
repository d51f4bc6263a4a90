//! X.509 certificates, read as strictly as Go's `x509.ParseCertificate` reads them, but for one
//! thing: whether a public point lies on its curve is left to whoever has the arithmetic.

mod extension;
mod name;
mod request;
mod time;

use std::{fmt, net::IpAddr};

use jiff::Timestamp;

pub use self::{name::Name, request::CertificateRequest};
use crate::{
    der::{self, Der, implicit, wrapped},
    pem::Blocks,
};

/// A certificate, borrowed from its DER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// The version as people count: 1 to 3. Version 1 has no extensions, so it names no server.
    pub version: u8,
    /// The content of the serial number.
    pub serial: &'a [u8],
    /// Who signed it.
    pub issuer: Name<'a>,
    /// Who it was made for.
    pub subject: Name<'a>,
    /// From when it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid, that second included.
    pub not_after: Timestamp,
    /// The key it was made for.
    pub public_key: PublicKeyInfo<'a>,
    /// The hosts and addresses it was made for.
    pub alternative_names: Vec<AlternativeName<'a>>,
}

/// A `SubjectPublicKeyInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKeyInfo<'a> {
    /// The whole element.
    pub der: &'a [u8],
    /// The content of the bit string.
    pub bits: &'a [u8],
    /// The key, as far as its kind is known.
    pub key: PublicKey<'a>,
}

/// A public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicKey<'a> {
    /// RSA
    Rsa {
        /// Without leading zeros; never zero.
        modulus: &'a [u8],
        /// Above zero.
        exponent: i64,
    },
    /// ECDSA
    Ec {
        /// The curve.
        curve: Curve,
        /// As long as an uncompressed point of the curve; whether it lies on it was not checked.
        point: &'a [u8],
    },
    /// Ed25519
    Ed25519(&'a [u8; 32]),
    /// Something that Kubernetes' clients do not sign with.
    Other,
}

/// The curves that Go knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// NIST P-224, which no handshake of ours can use
    P224,
    /// NIST P-256
    P256,
    /// NIST P-384
    P384,
    /// NIST P-521
    P521,
}

/// A name of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlternativeName<'a> {
    /// A host name, perhaps with a wildcard.
    Dns(&'a str),
    /// An address.
    Ip(IpAddr),
}

/// Object identifiers, as DER has them.
pub mod oid {
    /// `rsaEncryption`
    pub const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    /// `id-ecPublicKey`
    pub const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    /// `id-Ed25519`
    pub const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    /// `secp224r1`
    pub const P224: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x21];
    /// `secp256r1`
    pub const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    /// `secp384r1`
    pub const P384: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x22];
    /// `secp521r1`
    pub const P521: &[u8] = &[0x2b, 0x81, 0x04, 0, 0x23];
    /// `CN`
    pub const COMMON_NAME: &[u8] = &[0x55, 4, 3];
    /// `O`
    pub const ORGANIZATION: &[u8] = &[0x55, 4, 10];
    pub(super) const SUBJECT_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 14];
    pub(super) const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
    pub(super) const SUBJECT_ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 17];
    pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
    pub(super) const AUTHORITY_KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 35];
    pub(super) const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
}

impl<'a> Certificate<'a> {
    /// Reads a certificate; `None` if it is malformed or something follows it.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut input = Der(bytes);
        let mut certificate = input.read(der::SEQUENCE)?;
        if !input.is_empty() {
            return None;
        }
        let mut body = certificate.read(der::SEQUENCE)?;
        let version = if body.next_is(wrapped(0)) { body.read(wrapped(0))?.small()? } else { 0 };
        let version = u8::try_from(version).ok().filter(|version| *version <= 2)? + 1;
        let serial = body.integer()?;
        if serial[0] & 0x80 != 0 {
            return None;
        }
        let signed_with = body.read(der::SEQUENCE)?;
        if certificate.read(der::SEQUENCE)? != signed_with {
            return None;
        }
        algorithm(signed_with)?;
        let issuer = Name::read(&mut body)?;
        let mut validity = body.read(der::SEQUENCE)?;
        let (not_before, not_after) = (time::read(&mut validity)?, time::read(&mut validity)?);
        let subject = Name::read(&mut body)?;
        let public_key = PublicKeyInfo::read(&mut body)?;
        if version >= 2 {
            body.skip(implicit(1))?;
            body.skip(implicit(2))?;
        }
        let mut alternative_names = Vec::new();
        if version == 3 && body.next_is(wrapped(3)) {
            alternative_names = extension::read(body.read(wrapped(3))?.read(der::SEQUENCE)?)?;
        }
        certificate.bits()?;
        Some(Self {
            version,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            public_key,
            alternative_names,
        })
    }
}

impl<'a> PublicKeyInfo<'a> {
    /// Reads the next element as a public key; `None` if it is malformed.
    pub fn read(input: &mut Der<'a>) -> Option<Self> {
        let whole = input.whole(der::SEQUENCE)?;
        let mut content = Der(whole).read(der::SEQUENCE)?;
        let (kind, parameters) = algorithm(content.read(der::SEQUENCE)?)?;
        let (unused, bits) = content.bits()?;
        if unused != 0 && [oid::RSA, oid::EC, oid::ED25519].contains(&kind) {
            return None;
        }
        let key = match kind {
            oid::RSA => {
                let mut key = Der(bits).read(der::SEQUENCE)?;
                let modulus = key.positive()?;
                let exponent = key.small()?;
                if parameters != der::NULL || exponent <= 0 {
                    return None;
                }
                PublicKey::Rsa { modulus, exponent }
            }
            oid::EC => {
                let curve = Curve::named(Der(parameters).oid()?)?;
                let fits = bits.first() == Some(&4) && bits.len() == 1 + 2 * curve.coordinate();
                PublicKey::Ec { curve, point: fits.then_some(bits)? }
            }
            oid::ED25519 if parameters.is_empty() => PublicKey::Ed25519(bits.try_into().ok()?),
            oid::ED25519 => return None,
            _ => PublicKey::Other,
        };
        Some(Self { der: whole, bits, key })
    }
}

impl Curve {
    /// The curve of this object identifier.
    pub fn named(name: &[u8]) -> Option<Self> {
        [Self::P224, Self::P256, Self::P384, Self::P521]
            .into_iter()
            .find(|curve| curve.oid() == name)
    }

    /// The curve's object identifier.
    pub const fn oid(self) -> &'static [u8] {
        match self {
            Self::P224 => oid::P224,
            Self::P256 => oid::P256,
            Self::P384 => oid::P384,
            Self::P521 => oid::P521,
        }
    }

    /// The length of one coordinate, and of a private number, in bytes.
    pub const fn coordinate(self) -> usize {
        match self {
            Self::P224 => 28,
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

/// The DER of the certificates in a bundle of authorities: like Go's `AppendCertsFromPEM`, this
/// passes over everything that is not a well-formed certificate.
pub fn bundle(pem: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    Blocks::of(pem)
        .filter(|block| block.label == "CERTIFICATE" && !block.has_headers)
        .map(|block| block.content.to_vec())
        .filter(|der| Certificate::parse(der).is_some())
}

/// An algorithm and the bytes of its parameters.
fn algorithm(mut content: Der<'_>) -> Option<(&[u8], &[u8])> {
    let name = content.oid()?;
    let parameters = content.0;
    if !content.is_empty() {
        content.any()?;
    }
    Some((name, &parameters[..parameters.len() - content.0.len()]))
}

impl fmt::Display for AlternativeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => write!(f, "{}", name.escape_debug()),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}
