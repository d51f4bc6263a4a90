//! Public keys: what ties a certificate to the key it was made for.

use std::fmt;

use keyward_protocol::{
    der::{self, Der},
    x509::{Curve, PublicKey, PublicKeyInfo, oid},
};

/// What kind of key it is. The kind decides how it signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// RSA, with the length of its modulus in bits.
    Rsa(usize),
    P256,
    P384,
    P521,
    Ed25519,
}

/// A public key, in the one form in which two can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Public {
    pub(crate) kind: Kind,
    /// What stands in the bit string of a `SubjectPublicKeyInfo`.
    pub(crate) bits: Vec<u8>,
}

impl Kind {
    /// From `CKA_EC_PARAMS`: the name of a curve, or for Edwards curves its name in letters.
    pub(crate) fn curve(parameters: &[u8]) -> Option<Self> {
        match Der(parameters).any()? {
            (der::OID, Der(oid::ED25519)) | (der::PRINTABLE_STRING, Der(b"edwards25519")) => {
                Some(Self::Ed25519)
            }
            (der::OID, Der(name)) => Self::named(Curve::named(name)?),
            _ => None,
        }
    }

    fn named(curve: Curve) -> Option<Self> {
        match curve {
            Curve::P224 => None,
            Curve::P256 => Some(Self::P256),
            Curve::P384 => Some(Self::P384),
            Curve::P521 => Some(Self::P521),
        }
    }

    /// `CKA_EC_PARAMS` for making such a key; `None` for RSA.
    pub(crate) fn parameters(self) -> Option<Vec<u8>> {
        let name = match self {
            Self::Rsa(_) => return None,
            Self::P256 => oid::P256,
            Self::P384 => oid::P384,
            Self::P521 => oid::P521,
            Self::Ed25519 => oid::ED25519,
        };
        Some(der::element(der::OID, &[name]))
    }

    /// The length of one coordinate, and of one half of a signature, in bytes.
    pub(crate) fn coordinate(self) -> Option<usize> {
        match self {
            Self::Rsa(_) => None,
            Self::P256 | Self::Ed25519 => Some(32),
            Self::P384 => Some(48),
            Self::P521 => Some(66),
        }
    }
}

impl Public {
    /// From the two numbers of an RSA key. `None` for a modulus of zero, which some modules show in
    /// place of one that they do not tell.
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let length = bit_length(modulus);
        let bits = der::element(der::SEQUENCE, &[&der::integer(modulus), &der::integer(exponent)]);
        (length > 0).then_some(Self { kind: Kind::Rsa(length), bits })
    }

    /// From `CKA_EC_PARAMS` and `CKA_EC_POINT`. The point stands in an octet string, or by itself
    /// in modules that read the standard otherwise.
    pub(crate) fn curve(parameters: &[u8], point: &[u8]) -> Option<Self> {
        let kind = Kind::curve(parameters)?;
        let size = kind.coordinate()?;
        let length = if kind == Kind::Ed25519 { size } else { 1 + 2 * size };
        let bits = if point.len() == length {
            point
        } else {
            Der(point).read(der::OCTET_STRING).filter(|bits| bits.0.len() == length)?.0
        };
        Some(Self { kind, bits: bits.to_vec() })
    }

    /// From a `SubjectPublicKeyInfo`; `None` for a kind of key that we do not know.
    pub(crate) fn of(info: &PublicKeyInfo<'_>) -> Option<Self> {
        let kind = match info.key {
            PublicKey::Rsa { modulus, .. } => Kind::Rsa(bit_length(modulus)),
            PublicKey::Ec { curve, .. } => Kind::named(curve)?,
            PublicKey::Ed25519(_) => Kind::Ed25519,
            PublicKey::Other => return None,
        };
        Some(Self { kind, bits: info.bits.to_vec() })
    }

    /// The `SubjectPublicKeyInfo`.
    pub(crate) fn info(&self) -> Vec<u8> {
        let name = |name| der::element(der::OID, &[name]);
        let algorithm = match self.kind {
            Kind::Rsa(_) => der::element(der::SEQUENCE, &[&name(oid::RSA), der::NULL]),
            Kind::P256 => der::element(der::SEQUENCE, &[&name(oid::EC), &name(oid::P256)]),
            Kind::P384 => der::element(der::SEQUENCE, &[&name(oid::EC), &name(oid::P384)]),
            Kind::P521 => der::element(der::SEQUENCE, &[&name(oid::EC), &name(oid::P521)]),
            Kind::Ed25519 => der::element(der::SEQUENCE, &[&name(oid::ED25519)]),
        };
        der::element(der::SEQUENCE, &[&algorithm, &der::bit_string(&self.bits)])
    }
}

fn bit_length(number: &[u8]) -> usize {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    let number = &number[zeros..];
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rsa(bits) => write!(f, "RSA-{bits}"),
            Self::P256 => f.write_str("P-256"),
            Self::P384 => f.write_str("P-384"),
            Self::P521 => f.write_str("P-521"),
            Self::Ed25519 => f.write_str("Ed25519"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_reads_back_from_its_info() {
        let point = [&[4][..], &[9; 96]].concat();
        for key in [
            Public::rsa(&[0, 0xc1, 2, 3], &[1, 0, 1]).unwrap(),
            Public::curve(&Kind::P384.parameters().unwrap(), &point).unwrap(),
            Public::curve(b"\x13\x0cedwards25519", &[5; 32]).unwrap(),
        ] {
            let info = key.info();
            let info = PublicKeyInfo::read(&mut Der(&info)).unwrap();
            assert_eq!(Public::of(&info).unwrap(), key);
        }
    }

    #[test]
    fn a_point_may_stand_in_an_octet_string_or_by_itself() {
        let parameters = Kind::P256.parameters().unwrap();
        let bare = [&[4][..], &[9; 64]].concat();
        let packed = der::element(der::OCTET_STRING, &[&bare]);
        let key = Public::curve(&parameters, &packed).unwrap();
        assert_eq!(key, Public::curve(&parameters, &bare).unwrap());
        assert_eq!(key.bits, bare);
        assert!(Public::curve(&parameters, &bare[1..]).is_none());
    }

    #[test]
    fn the_length_of_a_modulus_is_that_of_the_number() {
        let kind = |modulus: &[u8]| Public::rsa(modulus, &[3]).map(|key| key.kind);
        assert_eq!(kind(&[0, 0x80, 0]), Some(Kind::Rsa(16)));
        assert_eq!(kind(&[0x01, 0]), Some(Kind::Rsa(9)));
        assert_eq!(kind(&[0, 0]), None);
        assert_eq!(kind(&[]), None);
    }
}
