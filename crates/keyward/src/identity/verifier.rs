//! Checks a server's certificate: against given authorities, the system's, or not at all.

use std::sync::{Arc, OnceLock};

use rustls::{
    CertificateError, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime},
    server::ParsedCertificate,
};

use webpki::EndEntityCert;

use super::{p521::P521, validity::Validity};
use crate::{Error, error::Kind};

/// Which servers are believed.
#[derive(Debug)]
pub(super) enum Which {
    /// Those that one of these authorities vouches for.
    Given(Given),
    /// Those that an authority of this machine vouches for.
    System,
    /// Those of either kind.
    Either(Given),
    /// All of them.
    DangerAny,
}

#[derive(Debug)]
pub(super) struct Given {
    store: RootCertStore,
    /// As they came: a server may show one of them as its own certificate.
    exact: Vec<CertificateDer<'static>>,
}

impl Which {
    pub(super) fn given(exact: Vec<CertificateDer<'static>>) -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(exact.iter().cloned());
        if store.is_empty() {
            return Err(Error::new(
                Kind::BadConfig,
                "the certificate authority data has no certificate that can be used",
            ));
        }
        Ok(Self::Given(Given { store, exact }))
    }

    pub(super) fn or_system(self) -> Self {
        match self {
            Self::Given(given) => Self::Either(given),
            other => other,
        }
    }
}

#[derive(Debug)]
pub(super) struct Verifier {
    which: Which,
    /// What the provider knows.
    known: WebPkiSupportedAlgorithms,
    /// That, and what we add to it, for the signatures of a chain.
    all: Vec<&'static dyn SignatureVerificationAlgorithm>,
    /// Whether the provider has to be helped with P-521.
    help: bool,
    system: OnceLock<Arc<RootCertStore>>,
}

impl Verifier {
    pub(super) fn new(provider: &CryptoProvider, which: Which) -> Self {
        let known = provider.signature_verification_algorithms;
        let mut all = known.all.to_vec();
        let help = !all.iter().any(|known| {
            known.public_key_alg_id() == P521.public_key_alg_id()
                && known.signature_alg_id() == P521.signature_alg_id()
        });
        if help {
            all.push(&P521);
        }
        Self { which, known, all, help, system: OnceLock::new() }
    }

    /// Whether a handshake will find everything in memory.
    pub(super) fn is_ready(&self) -> bool {
        match self.which {
            Which::System | Which::Either(_) => self.system.get().is_some(),
            Which::Given(_) | Which::DangerAny => true,
        }
    }

    /// The system's authorities, read at most once.
    pub(super) fn load(&self) -> &RootCertStore {
        self.system.get_or_init(|| {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "a certificate authority of this machine could not be read");
            }
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(found.certs);
            Arc::new(store)
        })
    }

    /// Checks a handshake signed on P-521 where the provider cannot; `None` for all others.
    fn with_help(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Option<Result<HandshakeSignatureValid, TlsError>> {
        if !self.help || signed.scheme != SignatureScheme::ECDSA_NISTP521_SHA512 {
            return None;
        }
        let valid = EndEntityCert::try_from(cert)
            .and_then(|cert| cert.verify_signature(&P521, message, signed.signature()));
        Some(match valid {
            Ok(()) => Ok(HandshakeSignatureValid::assertion()),
            Err(_) => Err(CertificateError::BadSignature.into()),
        })
    }

    fn check(
        &self,
        store: &RootCertStore,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), TlsError> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, store, intermediates, now, &self.all)?;
        verify_server_name(&parsed, name)
    }
}

impl Given {
    /// A server that shows one of the configured authorities itself: Go accepts it after a look at
    /// the name and the dates, webpki does not because an authority is no end entity (kube#1767).
    fn shows(
        &self,
        end_entity: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Option<Result<(), TlsError>> {
        if !self.exact.iter().any(|known| known == end_entity) {
            return None;
        }
        Some(
            Validity::of(end_entity)
                .ok_or(CertificateError::BadEncoding.into())
                .and_then(|validity| validity.check(now))
                .and_then(|()| verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)),
        )
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let given = |given: &Given| {
            given
                .shows(end_entity, name, now)
                .unwrap_or_else(|| self.check(&given.store, end_entity, intermediates, name, now))
        };
        let system = || self.check(self.load(), end_entity, intermediates, name, now);
        match &self.which {
            Which::Given(known) => given(known),
            Which::System => system(),
            Which::Either(known) => given(known).or_else(|_| system()),
            Which::DangerAny => Ok(()),
        }
        .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.with_help(message, cert, signed)
            .unwrap_or_else(|| verify_tls12_signature(message, cert, signed, &self.known))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.with_help(message, cert, signed)
            .unwrap_or_else(|| verify_tls13_signature(message, cert, signed, &self.known))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.known.supported_schemes();
        if self.help {
            // Last, so that a server with a choice takes another.
            schemes.push(SignatureScheme::ECDSA_NISTP521_SHA512);
        }
        schemes
    }
}
