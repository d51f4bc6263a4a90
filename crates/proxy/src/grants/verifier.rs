//! The client certificates that a listener accepts: those of its own authority, and those of grants.

use std::sync::Arc;

use keyward_process::clock::{Clock as _, SystemClock};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use super::Grants;
use crate::certificates::is_grant;

/// Accepts what `inner` accepts, and the certificates of grants in force.
pub(crate) fn verifier(
    inner: Arc<dyn ClientCertVerifier>,
    grants: Grants,
) -> Arc<dyn ClientCertVerifier> {
    Arc::new(Verifier { inner, grants })
}

#[derive(Debug)]
struct Verifier {
    inner: Arc<dyn ClientCertVerifier>,
    grants: Grants,
}

impl std::fmt::Debug for Grants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grants").finish_non_exhaustive()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // The handshake proves that the client has the key, and nobody but us has signed anything.
        match self.grants.of_certificate(certificate) {
            Some(grant) if grant.expires > SystemClock.now() => Ok(ClientCertVerified::assertion()),
            Some(_) => Err(CertificateError::Expired.into()),
            None if is_grant(certificate) => Err(CertificateError::Revoked.into()),
            None => self.inner.verify_client_cert(certificate, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
