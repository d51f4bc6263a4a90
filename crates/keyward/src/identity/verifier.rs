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
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::validity::Validity;
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
    algorithms: WebPkiSupportedAlgorithms,
    system: OnceLock<Arc<RootCertStore>>,
}

impl Verifier {
    pub(super) fn new(provider: &CryptoProvider, which: Which) -> Self {
        Self {
            which,
            algorithms: provider.signature_verification_algorithms,
            system: OnceLock::new(),
        }
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

    fn check(
        &self,
        store: &RootCertStore,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), TlsError> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            store,
            intermediates,
            now,
            self.algorithms.all,
        )?;
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
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
