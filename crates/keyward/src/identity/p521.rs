//! ECDSA on P-521 with SHA-512, which ring does not know: clusters do have such authorities.

use p521::ecdsa::{DerSignature, VerifyingKey, signature::Verifier};
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};

/// The algorithm, for webpki.
#[derive(Debug)]
pub(super) struct P521;

impl SignatureVerificationAlgorithm for P521 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = DerSignature::from_bytes(signature).map_err(|_| InvalidSignature)?;
        key.verify(message, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA512
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use p521::{
        ecdsa::{Signature, SigningKey, signature::Signer as _},
        pkcs8::DecodePrivateKey,
    };
    use rustls::{
        ClientConnection, Error as TlsError, ServerConfig, ServerConnection, SignatureAlgorithm,
        SignatureScheme,
        pki_types::{CertificateDer, PrivatePkcs8KeyDer, pem::PemObject},
        sign::{CertifiedKey, Signer, SigningKey as TlsKey, SingleCertAndKey},
    };

    use crate::identity::{Trust, server_name};

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
        let key = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let key = p521::SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).unwrap();
        let key = SigningKey::from(key);
        let chain = vec![CertificateDer::from_pem_slice(SERVER.as_bytes()).unwrap()];
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
