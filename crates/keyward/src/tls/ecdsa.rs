//! ECDSA that ring does not support: P-521, and hashes of another length than the curve's. Clusters have
//! such authorities, and kubectl accepts them.

use p521::ecdsa::signature::hazmat::PrehashVerifier as _;
use rustls::{
    SignatureScheme,
    pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id},
};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// Checks a signature: by this key, of this message.
type Verify = fn(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()>;

/// One curve with one hash, for webpki.
#[derive(Debug)]
pub(super) struct Ecdsa {
    key: AlgorithmIdentifier,
    signature: AlgorithmIdentifier,
    /// The name of the hash in TLS. TLS 1.3 ties it to a curve, TLS 1.2 does not.
    pub(super) scheme: SignatureScheme,
    verify: Verify,
}

/// P-521 with SHA-512: the one of these that TLS 1.3 has.
pub(super) static P521_SHA512: Ecdsa = Ecdsa {
    key: alg_id::ECDSA_P521,
    signature: alg_id::ECDSA_SHA512,
    scheme: SignatureScheme::ECDSA_NISTP521_SHA512,
    verify: p521::<Sha512>,
};

/// All of them. The first of each scheme is the one of TLS 1.3.
pub(super) static ALL: [&Ecdsa; 5] = [
    &P521_SHA512,
    &Ecdsa {
        key: alg_id::ECDSA_P521,
        signature: alg_id::ECDSA_SHA384,
        scheme: SignatureScheme::ECDSA_NISTP384_SHA384,
        verify: p521::<Sha384>,
    },
    &Ecdsa {
        key: alg_id::ECDSA_P521,
        signature: alg_id::ECDSA_SHA256,
        scheme: SignatureScheme::ECDSA_NISTP256_SHA256,
        verify: p521::<Sha256>,
    },
    &Ecdsa {
        key: alg_id::ECDSA_P384,
        signature: alg_id::ECDSA_SHA512,
        scheme: SignatureScheme::ECDSA_NISTP521_SHA512,
        verify: p384,
    },
    &Ecdsa {
        key: alg_id::ECDSA_P256,
        signature: alg_id::ECDSA_SHA512,
        scheme: SignatureScheme::ECDSA_NISTP521_SHA512,
        verify: p256,
    },
];

impl SignatureVerificationAlgorithm for Ecdsa {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        (self.verify)(public_key, message, signature).ok_or(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signature
    }
}

fn p521<D: Digest>(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    use p521::ecdsa::{Signature, VerifyingKey};

    // The crate rejects a hash shorter than half of the curve's numbers, but leading zeros do not
    // change its value.
    let hash = D::digest(message);
    let mut padded = [0; 66];
    padded[66 - hash.len()..].copy_from_slice(&hash);
    let key = VerifyingKey::from_sec1_bytes(key).ok()?;
    key.verify_prehash(&padded, &Signature::from_der(signature).ok()?).ok()
}

fn p384(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    use p384::ecdsa::{Signature, VerifyingKey};

    let key = VerifyingKey::from_sec1_bytes(key).ok()?;
    key.verify_prehash(&Sha512::digest(message), &Signature::from_der(signature).ok()?).ok()
}

fn p256(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    use p256::ecdsa::{Signature, VerifyingKey};

    let key = VerifyingKey::from_sec1_bytes(key).ok()?;
    key.verify_prehash(&Sha512::digest(message), &Signature::from_der(signature).ok()?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use keyward_protocol::pem::Blocks;
    use p521::ecdsa::{Signature, SigningKey, signature::Signer as _};
    use rustls::{
        ClientConnection, Error as TlsError, ServerConfig, ServerConnection, SignatureAlgorithm,
        SignatureScheme,
        pki_types::CertificateDer,
        sign::{CertifiedKey, Signer, SigningKey as TlsKey, SingleCertAndKey},
    };

    use crate::tls::{Trust, key::p521, server_name};

    const AUTHORITY: &str = include_str!("../../fixtures/p521-authority.pem");
    const SERVER: &str = include_str!("../../fixtures/p521-server.pem");
    const KEY: &str = include_str!("../../fixtures/p521-server.key");

    /// A server's key on P-521. Spoilt, it signs something else than it should.
    #[derive(Debug, Clone)]
    struct Key {
        key: SigningKey,
        spoilt: bool,
    }

    impl TlsKey for Key {
        fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
            let known = offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512);
            known.then(|| Box::new(self.clone()) as Box<dyn Signer>)
        }

        fn algorithm(&self) -> SignatureAlgorithm {
            SignatureAlgorithm::ECDSA
        }
    }

    impl Signer for Key {
        fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
            let message = if self.spoilt { b"another" } else { message };
            let signature: Signature = self.key.sign(message);
            Ok(signature.to_der().as_bytes().to_vec())
        }

        fn scheme(&self) -> SignatureScheme {
            SignatureScheme::ECDSA_NISTP521_SHA512
        }
    }

    /// Both sides talk until the handshake is done, in memory.
    fn shake_hands(
        version: &'static rustls::SupportedProtocolVersion,
        spoilt: bool,
    ) -> Result<(), TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let content = |pem: &str| Blocks::of(pem.as_bytes()).next().unwrap().content;
        let key = p521(&content(KEY)).unwrap();
        let chain = vec![CertificateDer::from(content(SERVER).to_vec())];
        let certified = CertifiedKey::new(chain, Arc::new(Key { key, spoilt }));
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        let trust = Trust::authorities(provider, AUTHORITY.as_bytes()).unwrap();
        let client = Arc::new(trust.client_config(None).unwrap());
        let mut client = ClientConnection::new(client, server_name("api.example").unwrap())?;
        let mut server = ServerConnection::new(Arc::new(server))?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            server.read_tls(&mut wire.as_slice()).unwrap();
            server.process_new_packets()?;
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn a_server_and_an_authority_on_p521_are_believed() {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            assert_eq!(shake_hands(version, false), Ok(()), "{version:?}");
        }
    }

    #[test]
    fn a_handshake_that_was_not_signed_with_the_key_is_refused() {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            assert!(shake_hands(version, true).is_err(), "{version:?}");
        }
    }
}
