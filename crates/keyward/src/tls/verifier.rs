//! Checks a server's certificate: against given authorities, the system's, or not at all.

use std::{
    env,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use keyward_process::surroundings::Surroundings;
use keyward_protocol::x509::Certificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error as TlsError, PeerMisbehaved, RootCertStore,
    SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, ServerName, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer,
        UnixTime,
    },
    server::ParsedCertificate,
};
use rustls_native_certs::{CertificateResult, load_certs_from_paths};
use webpki::RawPublicKeyEntity;

use super::{ecdsa, rejected};
use crate::{Error, error::Kind};

/// Whom to trust to vouch for a server.
#[derive(Debug)]
pub(super) enum Authorities {
    /// The given authorities.
    Given(Given),
    /// The authorities of this machine.
    System,
    /// The given authorities and those of this machine.
    Either(Given),
    /// Anybody: no certificate is checked.
    DangerAny,
}

#[derive(Debug)]
pub(super) struct Given {
    store: RootCertStore,
    /// The authorities themselves: a server may show one as its own certificate.
    exact: Vec<CertificateDer<'static>>,
    /// Where they came from, for messages.
    source: Arc<str>,
}

impl Authorities {
    pub(super) fn given(
        exact: Vec<CertificateDer<'static>>,
        source: &Arc<str>,
    ) -> Result<Self, Error> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(exact.iter().cloned());
        if store.is_empty() {
            return Err(Error::new(
                Kind::BadConfig,
                "the certificate authority data has no certificate that can be used",
            ));
        }
        Ok(Self::Given(Given { store, exact, source: Arc::clone(source) }))
    }

    /// Who is trusted, for messages.
    fn trusted(&self) -> String {
        const SYSTEM: &str = "the authorities of this machine";
        match self {
            Self::Given(given) => rejected::trusted(&given.exact, &given.source),
            Self::Either(given) => {
                format!("{}, and {SYSTEM}", rejected::trusted(&given.exact, &given.source))
            }
            Self::System | Self::DangerAny => {
                format!("trusted are {SYSTEM}: no certificate authority is configured")
            }
        }
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
    authorities: Authorities,
    /// What checks the signatures of a chain.
    chain: Vec<&'static dyn SignatureVerificationAlgorithm>,
    /// What checks the signature of a handshake, by its name in TLS. TLS 1.3 has only the first.
    handshake: Vec<(SignatureScheme, Vec<&'static dyn SignatureVerificationAlgorithm>)>,
    system: OnceLock<Arc<RootCertStore>>,
    places: OnceLock<Places>,
}

/// Where an environment says that the system's authorities are, with `SSL_CERT_FILE` and `SSL_CERT_DIR`.
#[derive(Debug, Default)]
struct Places {
    file: Option<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Places {
    fn of(surroundings: &Surroundings) -> Self {
        let directories = surroundings.var("SSL_CERT_DIR").unwrap_or_default();
        let is_named = |path: &PathBuf| !path.as_os_str().is_empty();
        Self {
            file: surroundings.var("SSL_CERT_FILE").map(PathBuf::from),
            directories: env::split_paths(&directories).filter(is_named).collect(),
        }
    }

    fn load(&self) -> CertificateResult {
        if self.file.is_none() && self.directories.is_empty() {
            return rustls_native_certs::load_native_certs();
        }
        let mut found = load_certs_from_paths(self.file.as_deref(), None);
        for directory in &self.directories {
            let more = load_certs_from_paths(None, Some(directory));
            found.certs.extend(more.certs);
            found.errors.extend(more.errors);
        }
        found
    }
}

impl Verifier {
    /// Checks with the provider's algorithms, and with the ECDSA that it may lack.
    pub(super) fn new(provider: &CryptoProvider, authorities: Authorities) -> Self {
        let known = provider.signature_verification_algorithms;
        let mut chain = known.all.to_vec();
        let mut handshake: Vec<_> =
            known.mapping.iter().map(|(scheme, known)| (*scheme, known.to_vec())).collect();
        for ours in ecdsa::ALL {
            let has = chain.iter().any(|known| {
                known.public_key_alg_id() == ours.public_key_alg_id()
                    && known.signature_alg_id() == ours.signature_alg_id()
            });
            if has {
                continue;
            }
            chain.push(ours);
            match handshake.iter_mut().find(|(scheme, _)| *scheme == ours.scheme) {
                Some((_, known)) => known.push(ours),
                // Last, so that a server with a choice takes another.
                None => handshake.push((ours.scheme, vec![ours])),
            }
        }
        let (system, places) = (OnceLock::new(), OnceLock::new());
        Self { authorities, chain, handshake, system, places }
    }

    /// Looks for the system's authorities where this environment says. The first call counts.
    pub(super) fn look_where(&self, surroundings: &Surroundings) {
        self.places.get_or_init(|| Places::of(surroundings));
    }

    /// Whether no certificate is checked.
    pub(super) fn accepts_any(&self) -> bool {
        matches!(self.authorities, Authorities::DangerAny)
    }

    /// Whether a handshake needs no file.
    pub(super) fn is_ready(&self) -> bool {
        match self.authorities {
            Authorities::System | Authorities::Either(_) => self.system.get().is_some(),
            Authorities::Given(_) | Authorities::DangerAny => true,
        }
    }

    /// The system's authorities, read at most once.
    pub(super) fn load(&self) -> &RootCertStore {
        self.system.get_or_init(|| {
            let found = self.places.get_or_init(Places::default).load();
            for error in &found.errors {
                tracing::warn!(%error, "a certificate authority of this machine could not be read");
            }
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(found.certs);
            Arc::new(store)
        })
    }

    /// Checks the signature of a handshake. The key is read by our own reader: webpki's knows no
    /// certificate of version 1, which is fine where nothing is checked but that the server has the
    /// key.
    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        tls13: bool,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let known = self.handshake.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let algorithms = match known {
            Some((scheme, known)) if !tls13 || is_of_tls13(*scheme) => known,
            _ => return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into()),
        };
        let algorithms = if tls13 { &algorithms[..1] } else { algorithms };
        let read = Certificate::parse(certificate).ok_or(CertificateError::BadEncoding)?;
        let info = SubjectPublicKeyInfoDer::from(read.public_key.der);
        let key = RawPublicKeyEntity::try_from(&info).map_err(|_| CertificateError::BadEncoding)?;
        let valid = algorithms
            .iter()
            .any(|algorithm| key.verify_signature(*algorithm, message, signed.signature()).is_ok());
        if valid {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
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
        verify_server_cert_signed_by_trust_anchor(&parsed, store, intermediates, now, &self.chain)?;
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
        let check = || {
            let read = Certificate::parse(end_entity).ok_or(CertificateError::BadEncoding)?;
            let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
            if now < read.not_before.as_second() {
                return Err(CertificateError::NotValidYet.into());
            }
            if now > read.not_after.as_second() {
                return Err(CertificateError::Expired.into());
            }
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)
        };
        Some(check())
    }
}

/// Whether TLS 1.3 has this for the signature of a handshake.
const fn is_of_tls13(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::ECDSA_NISTP256_SHA256
            | SignatureScheme::ECDSA_NISTP384_SHA384
            | SignatureScheme::ECDSA_NISTP521_SHA512
            | SignatureScheme::RSA_PSS_SHA256
            | SignatureScheme::RSA_PSS_SHA384
            | SignatureScheme::RSA_PSS_SHA512
            | SignatureScheme::ED25519
            | SignatureScheme::ED448
    )
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
        match &self.authorities {
            Authorities::Given(known) => given(known),
            Authorities::System => system(),
            Authorities::Either(known) => given(known).or_else(|_| system()),
            Authorities::DangerAny => Ok(()),
        }
        .map(|()| ServerCertVerified::assertion())
        .map_err(|error| rejected::explain(error, end_entity, name, self.authorities.trusted()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.check_signature(message, cert, signed, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.check_signature(message, cert, signed, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.handshake.iter().map(|(scheme, _)| *scheme).collect()
    }
}
