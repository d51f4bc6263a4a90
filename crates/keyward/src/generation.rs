//! One identity, one TLS configuration, one session store, one pool.
//!
//! A new certificate is a new generation: from then on every handshake shows it, and the old
//! generation is dropped, which drains its connections. A new token with the same certificate
//! keeps the pool. Header and pool of a request come from one credential.

use std::{
    error::Error as _,
    io,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
};

use arc_swap::ArcSwapOption;
use http::{Request, Response, header::AUTHORIZATION};
use keyward_host::Credential;
use keyward_process::lock;

use crate::{
    Body, Error, Incoming, Origin,
    bearer::{SendError, Transport},
    connect::{Connector, Dialer},
    error::Kind,
    pool::{self, Pool},
};

/// The current generation of a client, and how to build the next one.
#[derive(Clone)]
pub(crate) struct Generations(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    lifetimes: pool::Lifetimes,
    current: ArcSwapOption<Generation>,
    building: Mutex<()>,
    /// For requests with a credential of their own: without our certificate.
    without_certificate: OnceLock<Pool>,
}

struct Generation {
    /// The credential of the first request; later ones with the same certificate use the pool too.
    credential: Arc<Credential>,
    pool: Pool,
}

/// The pool for a request, and the newer credential to use if the request's own is outdated.
type Found = (Pool, Option<Arc<Credential>>);

impl Generations {
    pub(crate) fn new(connector: Arc<Connector>, lifetimes: pool::Lifetimes) -> Self {
        Self(Arc::new(Shared {
            connector,
            lifetimes,
            current: ArcSwapOption::empty(),
            building: Mutex::new(()),
            without_certificate: OnceLock::new(),
        }))
    }

    fn prepare(
        &self,
        request: &mut Request<Body>,
        credential: Option<&Arc<Credential>>,
    ) -> Result<Pool, Error> {
        let origin = &self.0.connector.origin;
        if !origin.covers(request.uri()) {
            return Err(Error::new(
                Kind::OtherOrigin,
                format!("the request is not for `{origin}`"),
            ));
        }
        *request.uri_mut() = origin.place(request.uri())?;
        let Some(credential) = credential else {
            return self.without_certificate();
        };
        let (pool, newer) = self.find(credential)?;
        if let Some(newer) = newer {
            match newer.authorization() {
                Some(value) => request.headers_mut().insert(AUTHORIZATION, value.clone()),
                None => request.headers_mut().remove(AUTHORIZATION),
            };
        }
        Ok(pool)
    }

    fn find(&self, credential: &Arc<Credential>) -> Result<Found, Error> {
        let shared = &self.0;
        if let Some(found) = shared.known(credential) {
            return Ok(found);
        }
        // One caller builds, the others find what it built.
        let _building = lock(&shared.building);
        if let Some(found) = shared.known(credential) {
            return Ok(found);
        }
        let pool = shared.build(Some(credential))?;
        let old = shared.current.swap(Some(Arc::new(Generation {
            credential: credential.clone(),
            pool: pool.clone(),
        })));
        if old.is_some() {
            tracing::debug!("the client certificate changed, old connections are drained");
        }
        Ok((pool, None))
    }

    fn without_certificate(&self) -> Result<Pool, Error> {
        if let Some(pool) = self.0.without_certificate.get() {
            return Ok(pool.clone());
        }
        let pool = self.0.build(None)?;
        Ok(self.0.without_certificate.get_or_init(|| pool).clone())
    }
}

impl Shared {
    fn known(&self, credential: &Arc<Credential>) -> Option<Found> {
        let current = self.current.load();
        let current = current.as_ref()?;
        let same = same_certificate(&current.credential, credential);
        // Serials grow, so an older certificate comes from a request that a rotation overtook. Going
        // back to it would revive the old identity.
        let overtaken = credential.serial() < current.credential.serial();
        (same || overtaken).then(|| {
            let newer = (!same).then(|| current.credential.clone());
            (current.pool.clone(), newer)
        })
    }

    fn build(&self, credential: Option<&Arc<Credential>>) -> Result<Pool, Error> {
        let trust = &self.connector.trust;
        let signer = credential.and_then(|credential| credential.signer());
        let tls = match signer {
            Some(signer) => trust.signer_config(signer)?,
            None => {
                let pair = credential.and_then(|credential| credential.pair());
                trust.client_config(pair.map(AsRef::as_ref))?
            }
        };
        let dialer = Dialer::new(self.connector.clone(), tls, signer.cloned());
        Ok(Pool::new(dialer, self.lifetimes.clone()))
    }
}

/// Whether both show the same certificate, whether the key is local or with a signer. Compares pointers: `keep_known`
/// of `host` keeps the pair while the plugin returns the same one.
pub(crate) fn same_certificate(one: &Credential, other: &Credential) -> bool {
    one.pair().map(Arc::as_ptr) == other.pair().map(Arc::as_ptr)
        && one.signer().map(Arc::as_ptr) == other.signer().map(Arc::as_ptr)
}

impl Transport<Body> for Generations {
    type Body = Incoming;
    type Error = Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Incoming>, SendError<Error>>> + Send>>;

    fn send(
        &self,
        mut request: Request<Body>,
        credential: Option<&Arc<Credential>>,
    ) -> Self::Future {
        let pool = self.prepare(&mut request, credential);
        // Boxed, because each stage of sending would have room for it.
        let request = Box::new(request);
        let connector = Arc::clone(&self.0.connector);
        Box::pin(async move {
            let pool = pool.map_err(|error| SendError { error, retryable: false })?;
            pool.send(request).await.map_err(|failure| SendError {
                error: plain_for_tls(&connector.origin, failure.error),
                retryable: failure.retryable,
            })
        })
    }
}

/// Adds a hint if a server that should speak plain HTTP answers something else or hangs up: mostly it
/// speaks TLS.
fn plain_for_tls(origin: &Origin, error: Error) -> Error {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    let what = match cause {
        Some(cause) if !origin.is_https() && cause.is_parse() => "does not answer in HTTP",
        Some(cause) if !origin.is_https() && (cause.is_incomplete_message() || is_reset(cause)) => {
            "hung up without an answer"
        }
        _ => return error,
    };
    let secure = origin.to_string().replacen("http://", "https://", 1);
    let message = format!("`{origin}` {what}: if it serves TLS, its URL is `{secure}`");
    Error::because(error.kind(), message, error)
}

/// Whether the other side ended the connection in the middle.
fn is_reset(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionReset)
}
