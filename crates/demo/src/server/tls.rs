//! The TLS side: versions, protocols, session resumption, client certificates.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, UnixTime},
    server::{
        ServerSessionMemoryCache, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::{
    Error,
    authority::{Authority, Issued},
};

/// The versions of TLS that the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Both versions.
    #[default]
    Both,
    /// TLS 1.2 only.
    Only12,
    /// TLS 1.3 only.
    Only13,
}

/// How the server treats client certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    /// Never asked for.
    Ignored,
    /// Requested; a connection without one, or with an invalid one, is accepted, but its requests
    /// need another credential. A Kubernetes API server does the same.
    #[default]
    Asked,
    /// Required: the handshake fails without a valid one.
    Demanded,
}

/// The TLS settings, with an empty session store: earlier sessions cannot be resumed.
pub fn settings(
    provider: Arc<CryptoProvider>,
    authority: &Authority,
    identity: &Issued,
    certificates: ClientCertificates,
    tls: Tls,
    protocols: &[&str],
) -> Result<ServerConfig, Error> {
    let versions: &[_] = match tls {
        Tls::Both => &[&rustls::version::TLS12, &rustls::version::TLS13],
        Tls::Only12 => &[&rustls::version::TLS12],
        Tls::Only13 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .map_err(Error::of("choose the TLS versions"))?;
    let builder = match certificates {
        ClientCertificates::Ignored => builder.with_no_client_auth(),
        ClientCertificates::Asked => {
            let checker = checker(authority, provider)?;
            builder.with_client_cert_verifier(Arc::new(Lenient(checker)))
        }
        ClientCertificates::Demanded => {
            builder.with_client_cert_verifier(checker(authority, provider)?)
        }
    };
    let mut settings = builder
        .with_single_cert(vec![identity.certificate().clone()], identity.key())
        .map_err(Error::of("use the server's certificate"))?;
    settings.session_storage = ServerSessionMemoryCache::new(4096);
    settings.ticketer = ring::Ticketer::new().map_err(Error::of("make the ticket key"))?;
    settings.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    Ok(settings)
}

/// Checks a client's certificate against the authority.
pub(crate) fn checker(
    authority: &Authority,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).map_err(Error::of("trust the authority"))?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(Error::of("trust the authority"))
}

/// Accepts every certificate whose key the client holds. Its validity is checked again for the
/// connection, so that a bad one gets a 401, as from a real API server.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
