//! Maps TLS signature schemes to the mechanisms of tokens.

use cryptoki::{
    error::Error,
    mechanism::{
        Mechanism, MechanismType,
        eddsa::{EddsaParams, EddsaSignatureScheme},
        rsa::{PkcsMgfType, PkcsPssParams},
    },
    types::Ulong,
};
use cryptoki_sys::CK_ULONG;
use keyward_plugin::{Hash, Options, Refusal};
use keyward_protocol::der;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::{
    fault::{explain, is_unsupported},
    pss,
    public::Kind,
};

/// One signing operation of a token: a mechanism, and the bytes to sign.
pub(crate) struct Step<'a> {
    pub(crate) mechanism: Mechanism<'a>,
    pub(crate) data: Vec<u8>,
}

/// Why a token made no signature.
pub(crate) enum Failure {
    /// The module's error, which may be about the mechanism or the session.
    Module(Error),
    /// Anything else; a retry would not help.
    Final(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Final(refusal)
    }
}

impl Failure {
    /// The error for the client.
    pub(crate) fn refusal(self) -> Refusal {
        match self {
            Self::Module(error) => explain("sign", &error),
            Self::Final(refusal) => refusal,
        }
    }
}

/// Signs with a key of this kind. `token` performs one operation; if it lacks the padding, the padding is
/// done here and the token performs the bare RSA operation. The token's list of mechanisms is ignored,
/// because it is wrong in both directions.
pub(crate) fn sign(
    kind: Kind,
    options: Options,
    digest: &[u8],
    mut token: impl FnMut(&Step<'_>) -> Result<Vec<u8>, Failure>,
) -> Result<Vec<u8>, Failure> {
    match (kind, options) {
        (Kind::Rsa(bits), Options::Pss(hash)) => {
            let step = Step { mechanism: pss_mechanism(hash), data: digest.to_vec() };
            or_bare(token(&step), bits, token, || {
                let mut salt = vec![0; hash.length()];
                SystemRandom::new()
                    .fill(&mut salt)
                    .map_err(|_| Refusal::failed("the system gives no random numbers"))?;
                pss::encode_pss(hash, digest, &salt, bits)
            })
        }
        (Kind::Rsa(bits), Options::Digest(hash)) => {
            let data = pss::digest_info(hash, digest);
            let step = Step { mechanism: Mechanism::RsaPkcs, data };
            or_bare(token(&step), bits, token, || pss::encode_v15(hash, digest, bits))
        }
        (Kind::P256 | Kind::P384 | Kind::P521, Options::Digest(_)) => {
            let size = kind.coordinate().unwrap_or_default();
            // Not every token truncates a digest that is longer than its curve.
            let data = digest[..digest.len().min(size)].to_vec();
            let pair = token(&Step { mechanism: Mechanism::Ecdsa, data })?;
            Ok(ecdsa(&pair)?)
        }
        (Kind::Ed25519, Options::Message) => {
            let parameters = EddsaParams::new(EddsaSignatureScheme::Pure);
            token(&Step { mechanism: Mechanism::Eddsa(parameters), data: digest.to_vec() })
        }
        _ => Err(Failure::Final(Refusal::Unsupported(format!(
            "a key of kind {kind} cannot sign {}",
            match options {
                Options::Pss(hash) => format!("by RSA-PSS with {hash}"),
                Options::Digest(hash) => format!("a digest of {hash}"),
                Options::Message => "a whole message".to_owned(),
            }
        )))),
    }
}

fn or_bare(
    first: Result<Vec<u8>, Failure>,
    bits: usize,
    mut token: impl FnMut(&Step<'_>) -> Result<Vec<u8>, Failure>,
    encode: impl FnOnce() -> Result<Vec<u8>, Refusal>,
) -> Result<Vec<u8>, Failure> {
    let signature = match first {
        Err(Failure::Module(error)) if is_unsupported(&error) => {
            token(&Step { mechanism: Mechanism::RsaX509, data: encode()? })?
        }
        other => other?,
    };
    // Some tokens drop leading zeros; a signature has the length of its modulus.
    let size = bits.div_ceil(8);
    if signature.len() > size {
        return Err(Failure::Final(Refusal::failed(
            "the token's signature is longer than its key",
        )));
    }
    Ok([vec![0; size - signature.len()], signature].concat())
}

fn pss_mechanism(hash: Hash) -> Mechanism<'static> {
    let (hash_alg, mgf) = match hash {
        Hash::Sha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
        Hash::Sha384 => (MechanismType::SHA384, PkcsMgfType::MGF1_SHA384),
        Hash::Sha512 => (MechanismType::SHA512, PkcsMgfType::MGF1_SHA512),
    };
    let s_len = Ulong::from(hash.length() as CK_ULONG);
    Mechanism::RsaPkcsPss(PkcsPssParams { hash_alg, mgf, s_len })
}

/// Encodes the two numbers of a token's signature in DER, as TLS needs them.
fn ecdsa(pair: &[u8]) -> Result<Vec<u8>, Refusal> {
    if pair.is_empty() || !pair.len().is_multiple_of(2) {
        return Err(Refusal::failed("the token's ECDSA signature is not a pair of numbers"));
    }
    let (r, s) = pair.split_at(pair.len() / 2);
    Ok(der::element(der::SEQUENCE, &[&der::integer(r), &der::integer(s)]))
}

/// Every TLS scheme of a key of this kind.
pub(crate) fn schemes(kind: Kind) -> Vec<Options> {
    match kind {
        Kind::Rsa(_) => {
            let pss = Hash::ALL.into_iter().map(Options::Pss);
            pss.chain(Hash::ALL.into_iter().map(Options::Digest)).collect()
        }
        // TLS 1.3 binds hash and curve; TLS 1.2 lets a server ask for SHA-256 whatever the curve.
        Kind::P256 => vec![Options::Digest(Hash::Sha256)],
        Kind::P384 => vec![Options::Digest(Hash::Sha384), Options::Digest(Hash::Sha256)],
        Kind::P521 => vec![Options::Digest(Hash::Sha512), Options::Digest(Hash::Sha256)],
        Kind::Ed25519 => vec![Options::Message],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use cryptoki::{context::Function, error::RvError};

    use super::*;

    fn refuse(code: RvError) -> Failure {
        Failure::Module(Error::Pkcs11(code, Function::SignInit))
    }

    #[test]
    fn a_token_without_pss_is_asked_for_the_bare_operation() {
        let mut asked = Vec::new();
        let signature = sign(Kind::Rsa(2048), Options::Pss(Hash::Sha256), &[7; 32], |step| {
            asked.push(step.mechanism.mechanism_type());
            match step.mechanism {
                Mechanism::RsaX509 => Ok(step.data[1..].to_vec()),
                _ => Err(refuse(RvError::MechanismInvalid)),
            }
        });
        assert_eq!(asked, [MechanismType::RSA_PKCS_PSS, MechanismType::RSA_X_509]);
        assert_eq!(signature.ok().unwrap().len(), 256, "zeros are put back");
    }

    #[test]
    fn other_failures_are_not_tried_again() {
        let mut count = 0;
        let outcome = sign(Kind::Rsa(2048), Options::Pss(Hash::Sha256), &[7; 32], |_| {
            count += 1;
            Err(refuse(RvError::DeviceError))
        });
        assert!(outcome.is_err());
        assert_eq!(count, 1);
    }

    #[test]
    fn a_digest_longer_than_the_curve_is_cut() {
        let outcome = sign(Kind::P256, Options::Digest(Hash::Sha512), &[7; 64], |step| {
            assert_eq!(step.data.len(), 32);
            Ok([[0x80; 32], [1; 32]].concat())
        });
        let signature = outcome.ok().unwrap();
        assert_eq!(signature[..6], [0x30, 69, 2, 33, 0, 0x80]);
    }

    #[test]
    fn a_key_refuses_what_is_not_its_own() {
        for (kind, options) in [
            (Kind::P256, Options::Pss(Hash::Sha256)),
            (Kind::P256, Options::Message),
            (Kind::Ed25519, Options::Digest(Hash::Sha256)),
            (Kind::Rsa(2048), Options::Message),
        ] {
            let outcome = sign(kind, options, &[7; 32], |_| Ok(vec![1; 64]));
            assert!(matches!(outcome, Err(Failure::Final(Refusal::Unsupported(_)))));
        }
    }
}
