use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyward_host::SignerCertificate;
use rustls::ClientConfig;

use super::{Connector, Diagnosis, Io};
use crate::Error;

/// How often a request that was never sent is given to another connection.
const ATTEMPTS: usize = 4;

/// The limit where each connection costs a signature.
const SIGNED_ATTEMPTS: usize = 2;

/// After how long a signer is to blame for a connection that ended: a kube-apiserver waits 32 s for a
/// handshake, and its clock starts before the signer's.
const SLOW: Duration = Duration::from_secs(25);

/// Connects to the server as one identity.
pub(crate) struct Dialer {
    connector: Arc<Connector>,
    /// Offers HTTP/2 and HTTP/1.1.
    tls: Arc<ClientConfig>,
    /// Offers HTTP/1.1 only: over HTTP/2 hyper drops an `Upgrade` header silently.
    upgrade_tls: Arc<ClientConfig>,
    signer: Option<Signer>,
}

/// An external signer of handshakes.
struct Signer {
    certificate: Arc<SignerCertificate>,
    slow: Duration,
    /// The last connection failed because the signer was slower than the server waits.
    late: AtomicBool,
}

impl Dialer {
    /// `tls` shows the identity; where an external signer does that, `signer` is it.
    pub(crate) fn new(
        connector: Arc<Connector>,
        tls: ClientConfig,
        signer: Option<Arc<SignerCertificate>>,
    ) -> Self {
        // A clone shares the session store, which is right: the identity is the same.
        let mut upgrade_tls = tls.clone();
        upgrade_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut both = tls;
        both.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let signer = signer.map(|certificate| Signer {
            certificate,
            slow: SLOW,
            late: AtomicBool::new(false),
        });
        Self { connector, tls: Arc::new(both), upgrade_tls: Arc::new(upgrade_tls), signer }
    }

    /// Blames the signer for a connection that ended after a shorter time than usual.
    #[cfg(test)]
    pub(crate) fn slow_after(mut self, slow: Duration) -> Self {
        if let Some(signer) = &mut self.signer {
            signer.slow = slow;
        }
        self
    }

    /// How long a server has for an answer below HTTP.
    pub(crate) fn limit(&self) -> Duration {
        self.connector.limit
    }

    /// Whether every new connection costs a signature, and perhaps a person's touch.
    pub(crate) fn is_signed(&self) -> bool {
        self.signer.is_some()
    }

    /// How many connections a request that was never sent may try.
    pub(crate) fn attempts(&self) -> usize {
        if self.is_signed() { SIGNED_ATTEMPTS } else { ATTEMPTS }
    }

    /// Begins to record what becomes of a connection.
    pub(crate) fn diagnosis(&self) -> Arc<Diagnosis> {
        let signer = self.signer.as_ref().map(|signer| (&signer.certificate, signer.slow));
        Diagnosis::new(&self.connector.origin, signer)
    }

    /// Connects; `upgrade` is for a request that wants to leave HTTP.
    pub(crate) async fn connect(&self, upgrade: bool, diagnosis: &Diagnosis) -> Result<Io, Error> {
        let tls = if upgrade { &self.upgrade_tls } else { &self.tls };
        self.connector.connect(tls, diagnosis).await
    }

    /// Records whether the signer was in time. Returns whether it was late before.
    pub(crate) fn note_late(&self, late: bool) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.late.swap(late, Ordering::Relaxed))
    }
}
