//! How a client proves who it is to a token endpoint: a secret, or assertions (RFC 7523, `private_key_jwt`).

use std::path::PathBuf;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jiff::Timestamp;
use keyward_process::file::{self, Limits};
use keyward_protocol::{Secret, der, pem::Blocks, x509::oid};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom as _, SystemRandom},
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
    },
};
use zeroize::Zeroizing;

/// How long an assertion is valid. It is sent at once.
const LIFETIME: i64 = 60;

/// How long an assertion with a certificate is valid, as Entra ID recommends: it is not forgiving about clocks.
const WITH_CERTIFICATE: i64 = 600;

/// The value of `client_assertion_type`.
pub(crate) const KIND: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How a client proves who it is, besides a certificate.
pub(crate) enum ClientAuth {
    /// Not at all.
    Public,
    /// With a secret.
    Secret(Secret),
    /// With assertions that it signs (`private_key_jwt`).
    Key(Box<SigningKey>),
    /// With an assertion in a file, read for each request.
    AssertionFile(PathBuf),
}

impl ClientAuth {
    /// The assertion for the next request, if this client proves itself by one.
    pub(crate) fn assertion(
        &self,
        client: &str,
        audience: &str,
        now: Timestamp,
    ) -> Result<Option<Secret>, String> {
        match self {
            Self::Public | Self::Secret(_) => Ok(None),
            Self::Key(key) => Ok(Some(Secret::new(key.assertion(client, audience, now)?))),
            Self::AssertionFile(path) => {
                let bytes =
                    file::read(path, &Limits::NAMED.at_most(64 << 10)).map_err(|error| {
                        format!(
                            "cannot read `{}`, the file of `--client-assertion-file`: {}",
                            path.display(),
                            file::reason(&error)
                        )
                    })?;
                Ok(Some(Secret::from_bytes(bytes.trim_ascii().to_vec())))
            }
        }
    }
}

/// A private key that signs assertions, and its id at the provider.
pub(crate) struct SigningKey {
    key: Private,
    id: Option<String>,
    /// The certificate of the key in DER. Entra ID knows a key by it.
    certificate: Option<Vec<u8>>,
}

enum Private {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Private {
    /// A key of P-256 or P-384 in PKCS #8.
    fn ecdsa(der: &[u8], random: &SystemRandom) -> Option<Self> {
        let read = |curve| EcdsaKeyPair::from_pkcs8(curve, der, random).ok();
        let p256 = read(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self::P256);
        p256.or_else(|| read(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384))
    }
}

impl SigningKey {
    /// Reads the first private key of a PEM text.
    pub(crate) fn from_pem(pem: &[u8], id: Option<String>) -> Result<Self, &'static str> {
        let block = Blocks::of(pem).find(|block| block.label.ends_with("PRIVATE KEY"));
        let block = block.ok_or("there is no private key in PEM")?;
        let der: &[u8] = &block.content;
        let random = SystemRandom::new();
        let key = match block.label.as_str() {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).ok().map(Private::Rsa),
            "PRIVATE KEY" => {
                let rsa = || RsaKeyPair::from_pkcs8(der).ok().map(Private::Rsa);
                let ed = || {
                    let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
                    pair.ok().map(Private::Ed25519)
                };
                rsa().or_else(|| Private::ecdsa(der, &random)).or_else(ed)
            }
            // It lacks the names of the algorithm and of the curve, which PKCS #8 has.
            "EC PRIVATE KEY" => [oid::P256, oid::P384].into_iter().find_map(|curve| {
                let names = [oid::EC, curve].map(|name| der::element(der::OID, &[name]));
                let algorithm = der::element(der::SEQUENCE, &[&names[0], &names[1]]);
                let key = Zeroizing::new(der::element(der::OCTET_STRING, &[der]));
                let parts = [&der::integer(&[0])[..], &algorithm, &key];
                Private::ecdsa(&Zeroizing::new(der::element(der::SEQUENCE, &parts)), &random)
            }),
            _ => return Err("the key is encrypted, or of a kind that cannot sign assertions"),
        };
        let key =
            key.ok_or("the key is neither RSA from 2048 bits, nor P-256, P-384 or Ed25519")?;
        Ok(Self { key, id, certificate: None })
    }

    /// The key with its certificate in DER. Its assertions name it, and are signed with PS256, as Entra ID prefers.
    #[cfg(feature = "entra")]
    pub(crate) fn with_certificate(self, certificate: Vec<u8>) -> Result<Self, &'static str> {
        match self.key {
            Private::Rsa(_) => Ok(Self { certificate: Some(certificate), ..self }),
            _ => Err("its key is not RSA, and Entra ID takes no other"),
        }
    }

    /// A fresh assertion that `client` is who it says, for the provider `audience`.
    pub(crate) fn assertion(
        &self,
        client: &str,
        audience: &str,
        now: Timestamp,
    ) -> Result<String, &'static str> {
        let random = SystemRandom::new();
        let mut id = [0; 16];
        random.fill(&mut id).map_err(|_| NO_RANDOM)?;
        let lifetime = if self.certificate.is_some() { WITH_CERTIFICATE } else { LIFETIME };
        let now = now.as_second();
        let claims = serde_json::json!({
            "iss": client, "sub": client, "aud": audience, "jti": URL_SAFE_NO_PAD.encode(id),
            "iat": now, "nbf": now, "exp": now + lifetime,
        });
        self.sign_claims(&claims)
    }

    /// Claims, signed: a JWT.
    pub(crate) fn sign_claims(&self, claims: &serde_json::Value) -> Result<String, &'static str> {
        let mut header = serde_json::json!({ "alg": self.algorithm(), "typ": "JWT" });
        if let Some(id) = &self.id {
            header["kid"] = id.as_str().into();
        }
        if let Some(certificate) = &self.certificate {
            header["x5t#S256"] = URL_SAFE_NO_PAD.encode(digest(&SHA256, certificate)).into();
            header["x5c"] = [STANDARD.encode(certificate)].to_vec().into();
        }
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header.to_string()),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = self.sign(signed.as_bytes(), &SystemRandom::new())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn algorithm(&self) -> &'static str {
        match self.key {
            Private::Rsa(_) if self.certificate.is_none() => "RS256",
            Private::Rsa(_) => "PS256",
            Private::P256(_) => "ES256",
            Private::P384(_) => "ES384",
            Private::Ed25519(_) => "EdDSA",
        }
    }

    fn sign(&self, message: &[u8], random: &SystemRandom) -> Result<Vec<u8>, &'static str> {
        match &self.key {
            Private::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let padding: &dyn RsaEncoding =
                    if self.certificate.is_none() { &RSA_PKCS1_SHA256 } else { &RSA_PSS_SHA256 };
                let signed = key.sign(padding, random, message, &mut signature);
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
