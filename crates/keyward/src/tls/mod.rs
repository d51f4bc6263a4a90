//! TLS identities for rustls: which servers to trust, and which certificate to show.
//!
//! A [`ClientConfig`] is built once per generation and never changed. Behind a resolver that swaps
//! certificates a server keeps seeing the old identity on every resumed connection, so a new
//! certificate is a new configuration with a session store of its own.

mod ecdsa;
mod group;
mod handshake;
#[cfg(feature = "ring")]
mod hybrid;
mod key;
mod rejected;
mod signer;
#[cfg(test)]
mod tests;
mod verifier;

use std::{fmt, sync::Arc};

use keyward_host::{Pair, SignerCertificate, Target, read_authorities};
use keyward_process::{
    clock::{Clock, SystemClock},
    surroundings::Surroundings,
};
use rustls::{
    ClientConfig, NamedGroup,
    client::Resumption,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    time_provider::TimeProvider,
};

use self::verifier::{Authorities, Verifier};
pub(crate) use self::{
    handshake::Handshake,
    rejected::{Rejected, rejection},
    signer::failure,
};
pub use self::{
    key::check_pair,
    rejected::Rejection,
    signer::{Scheme, schemes},
};
use crate::{Error, Origin, error::Kind};

/// The servers to trust: by which authorities, under which name.
#[derive(Clone)]
pub struct Trust {
    provider: Arc<CryptoProvider>,
    verifier: Arc<Verifier>,
    /// For a proxy that is reached by TLS: the cluster's authorities or the system's.
    proxy: Arc<Verifier>,
    name: Option<ServerName<'static>>,
}

impl Trust {
    /// Trusts the authorities of this machine. They are read at the first handshake, because parsing
    /// them costs milliseconds.
    pub fn system(provider: Arc<CryptoProvider>) -> Self {
        Self::with_authorities(provider, Authorities::System)
    }

    /// Trusts the authorities in these PEM blocks and no others. Blocks that are not certificates are
    /// skipped, as in Go; without any certificate this fails.
    pub fn authorities(provider: Arc<CryptoProvider>, pem: &[u8]) -> Result<Self, Error> {
        Self::authorities_from(provider, pem, "the configured certificate authority")
    }

    fn authorities_from(
        provider: Arc<CryptoProvider>,
        pem: &[u8],
        source: &str,
    ) -> Result<Self, Error> {
        let source = Arc::from(source);
        let given: Vec<CertificateDer<'static>> =
            read_authorities(pem).into_iter().map(CertificateDer::from).collect();
        let verifier = Verifier::new(&provider, Authorities::given(given.clone(), &source)?);
        let proxy = Verifier::new(&provider, Authorities::given(given, &source)?.or_system());
        Ok(Self { verifier: Arc::new(verifier), proxy: Arc::new(proxy), provider, name: None })
    }

    /// Trusts any certificate: whoever answers gets the credential.
    pub fn danger_any_server(provider: Arc<CryptoProvider>) -> Self {
        Self::with_authorities(provider, Authorities::DangerAny)
    }

    fn with_authorities(provider: Arc<CryptoProvider>, authorities: Authorities) -> Self {
        let verifier = Arc::new(Verifier::new(&provider, authorities));
        Self { proxy: verifier.clone(), verifier, provider, name: None }
    }

    /// Trusts what a kubeconfig's cluster entry configures.
    pub fn of(target: &Target, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        target.check_authority()?;
        let cluster = &target.cluster.value;
        let trust = if cluster.insecure_skip_tls_verify {
            Self::danger_any_server(provider)
        } else if cluster.certificate_authority_data.is_empty() {
            Self::system(provider)
        } else {
            let pem = &cluster.certificate_authority_data;
            Self::authorities_from(provider, pem, &target.authority_source())?
        };
        match cluster.tls_server_name.as_str() {
            "" => Ok(trust),
            name => trust.named(name),
        }
    }

    /// Expects this name in the server's certificate instead of the URL's host, and sends it in the
    /// handshake.
    pub fn named(mut self, name: &str) -> Result<Self, Error> {
        self.name = Some(server_name(name)?);
        Ok(self)
    }

    /// Finds the authorities of this machine where an environment says that they are.
    pub(crate) fn look_where(&self, surroundings: &Surroundings) {
        self.verifier.look_where(surroundings);
        self.proxy.look_where(surroundings);
    }

    /// A new configuration, with its own session store, that shows this certificate.
    ///
    /// Fails when the provider cannot sign with the key.
    pub fn client_config(&self, pair: Option<&Pair>) -> Result<ClientConfig, Error> {
        let builder = self.builder(self.verifier.clone())?;
        Ok(match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => builder.with_client_cert_resolver(key::resolver(&self.provider, pair)?),
        })
    }

    /// A configuration for a certificate whose key an external signer holds. Every signature is checked
    /// before it is sent. If the server accepts none of the key's schemes the handshake fails:
    /// the client never pretends to have no certificate.
    ///
    /// A handshake with this configuration blocks its thread for as long as the signer takes. A
    /// [`crate::Client`] drives it on a thread of its own.
    pub fn signer_config(
        &self,
        certificate: &Arc<SignerCertificate>,
    ) -> Result<ClientConfig, Error> {
        let resolver = signer::resolver(&self.provider, certificate);
        let builder = self.builder(self.verifier.clone())?;
        let mut config = builder.with_client_cert_resolver(Arc::new(resolver));
        if !certificate.resumes() {
            config.resumption = Resumption::disabled();
        }
        Ok(config)
    }

    /// A configuration for a proxy, which is not shown the certificate for the server.
    pub(crate) fn proxy_config(&self) -> Result<ClientConfig, Error> {
        Ok(self.builder(self.proxy.clone())?.with_no_client_auth())
    }

    /// The name to check the certificate of `origin` against. No certificate is for an address with a
    /// zone, so there must be another name for it, as for kubectl.
    pub(crate) fn name_for(&self, origin: &Origin) -> Result<ServerName<'static>, Error> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let host = origin.bare_host();
        match host.split_once('%') {
            None => server_name(host),
            Some((address, _)) if self.verifier.accepts_any() => server_name(address),
            Some(_) => Err(Error::new(
                Kind::BadConfig,
                format!(
                    "no certificate is for `{host}`, an address with a zone: set \
                     `tls-server-name` to a name that the server's certificate has"
                ),
            )),
        }
    }

    /// Reads the system's authorities if a handshake needs them and they are not loaded yet, on a
    /// thread that may block.
    pub(crate) async fn prepare(&self, proxy: bool) {
        let verifier = if proxy { &self.proxy } else { &self.verifier };
        if !verifier.is_ready() {
            let verifier = verifier.clone();
            // If the task fails, the handshake loads them.
            let _ = tokio::task::spawn_blocking(move || {
                verifier.load();
            })
            .await;
        }
    }

    fn builder(&self, verifier: Arc<Verifier>) -> Result<WantsClientCert, Error> {
        let mut provider = self.provider.clone();
        if !provider.kx_groups.iter().any(|group| group.name() == NamedGroup::secp521r1) {
            // Last: some servers have nothing else, and in TLS 1.2 a client says with its groups
            // which curves its own certificate may have.
            Arc::make_mut(&mut provider).kx_groups.push(&group::P521);
        }
        // Always with a provider: with two of them in the tree the plain builder panics.
        let builder = ClientConfig::builder_with_details(provider, Arc::new(WallClock))
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                let message = "the cryptography provider has no usable TLS version";
                Error::because(Kind::BadConfig, message, error)
            })?;
        Ok(builder.dangerous().with_custom_certificate_verifier(verifier))
    }
}

type WantsClientCert = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

/// The time for handshakes, from the host's clock. Before 1970, where rustls' own clock panics, a
/// handshake fails with an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        let millis = u64::try_from(SystemClock.wall_millis()).ok()?;
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_millis(millis)))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust")
            .field("verifier", &self.verifier)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(name.to_owned()).map_err(|error| {
        let message = format!("`{name}` cannot be the name in a certificate");
        Error::because(Kind::BadConfig, message, error)
    })
}

/// The provider that was given, or else the default one.
pub(crate) fn provider_or_default(
    given: Option<Arc<CryptoProvider>>,
) -> Result<Arc<CryptoProvider>, Error> {
    given
        .or_else(default_provider)
        .ok_or_else(|| Error::new(Kind::BadConfig, "no cryptography provider was given"))
}

/// The provider of the crate's features, or else the one that the process installed.
fn default_provider() -> Option<Arc<CryptoProvider>> {
    #[cfg(feature = "ring")]
    let chosen = Some(ring_provider());
    #[cfg(all(feature = "aws-lc-rs", not(feature = "ring")))]
    let chosen = Some(rustls::crypto::aws_lc_rs::default_provider());
    #[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
    let chosen: Option<CryptoProvider> = None;
    chosen.map(Arc::new).or_else(|| CryptoProvider::get_default().cloned())
}

/// ring's cryptography with the post-quantum key exchange that kubectl offers. rustls sends a share of
/// the first group, and with it one of X25519 alone, for servers that know no better.
#[cfg(feature = "ring")]
fn ring_provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    provider.kx_groups.insert(0, &hybrid::X25519MlKem768);
    provider
}
