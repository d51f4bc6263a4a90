//! Assertions with which a client proves who it is (RFC 7523, `private_key_jwt`).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use keyward_protocol::pem::Blocks;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    },
};

/// How long an assertion is valid. It is sent at once.
const LIFETIME: i64 = 60;

/// The value of `client_assertion_type`.
pub(super) const KIND: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A private key that signs assertions, and its id at the provider.
pub(super) struct SigningKey {
    key: Private,
    id: Option<String>,
}

enum Private {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// Reads the first private key of a PEM text.
    pub(super) fn from_pem(pem: &[u8], id: Option<String>) -> Result<Self, &'static str> {
        let block = Blocks::of(pem).find(|block| block.label.ends_with("PRIVATE KEY"));
        let block = block.ok_or("there is no private key in PEM")?;
        let der = &block.content;
        let random = SystemRandom::new();
        let key = match block.label.as_str() {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).ok().map(Private::Rsa),
            "PRIVATE KEY" => {
                let p256 = &ECDSA_P256_SHA256_FIXED_SIGNING;
                let p384 = &ECDSA_P384_SHA384_FIXED_SIGNING;
                let rsa = || RsaKeyPair::from_pkcs8(der).ok().map(Private::Rsa);
                let p256 = || EcdsaKeyPair::from_pkcs8(p256, der, &random).ok().map(Private::P256);
                let p384 = || EcdsaKeyPair::from_pkcs8(p384, der, &random).ok().map(Private::P384);
                let ed = || {
                    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
                    pair.ok().map(Private::Ed25519)
                };
                rsa().or_else(p256).or_else(p384).or_else(ed)
            }
            "EC PRIVATE KEY" => {
                return Err("convert the key with `openssl pkcs8 -topk8 -nodes`, to begin with \
                            `BEGIN PRIVATE KEY`");
            }
            _ => return Err("the key is encrypted, or of a kind that cannot sign assertions"),
        };
        let key =
            key.ok_or("the key is neither RSA from 2048 bits, nor P-256, P-384 or Ed25519")?;
        Ok(Self { key, id })
    }

    /// A fresh assertion that `client` is who it says, for the provider `audience`.
    pub(super) fn assertion(
        &self,
        client: &str,
        audience: &str,
        now: Timestamp,
    ) -> Result<String, &'static str> {
        let random = SystemRandom::new();
        let mut id = [0; 16];
        random.fill(&mut id).map_err(|_| NO_RANDOM)?;
        let header = serde_json::json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id });
        let now = now.as_second();
        let claims = serde_json::json!({
            "iss": client, "sub": client, "aud": audience, "jti": URL_SAFE_NO_PAD.encode(id),
            "iat": now, "nbf": now, "exp": now + LIFETIME,
        });
        let header = without_null(header).to_string();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = self.sign(signed.as_bytes(), &random)?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn algorithm(&self) -> &'static str {
        match self.key {
            Private::Rsa(_) => "RS256",
            Private::P256(_) => "ES256",
            Private::P384(_) => "ES384",
            Private::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8], random: &SystemRandom) -> Result<Vec<u8>, &'static str> {
        match &self.key {
            Private::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let signed = key.sign(&RSA_PKCS1_SHA256, random, message, &mut signature);
                signed.map(|()| signature).map_err(|_| CANNOT_SIGN)
            }
            Private::P256(key) | Private::P384(key) => {
                let signature = key.sign(random, message).map_err(|_| CANNOT_SIGN)?;
                Ok(signature.as_ref().to_vec())
            }
            Private::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
    }
}

const NO_RANDOM: &str = "the system gives no random numbers";
const CANNOT_SIGN: &str = "the key of `--client-key` cannot sign";

/// A header without a `kid` that is not known.
fn without_null(mut header: serde_json::Value) -> serde_json::Value {
    if let Some(map) = header.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    header
}
