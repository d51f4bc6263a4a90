//! One identity, one TLS configuration, one session store, one pool.
//!
//! A new certificate is a new generation: from then on every handshake shows it, and the old
//! generation is dropped, which drains its connections. A new token with the same certificate
//! keeps the pool. Header and pool of a request come from one credential.

use std::{
    error::Error as _,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use arc_swap::ArcSwapOption;
use http::{Request, Response, header::AUTHORIZATION};
use keyward_host::Credential;

use crate::{
    Body, Error, Incoming, Origin,
    bearer::{Carry, Lost},
    connect::Connector,
    error::Kind,
    pool::{self, Pool},
};

/// The generations of a client: the current one, and how to build the next.
#[derive(Clone)]
pub(crate) struct Generations(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    settings: pool::Settings,
    current: ArcSwapOption<Generation>,
    building: Mutex<()>,
    /// For requests that bring their own authorization: under no certificate of ours.
    bare: OnceLock<Pool>,
}

struct Generation {
    /// The credential it was built for; later ones with the same pair use it too.
    credential: Arc<Credential>,
    pool: Pool,
}

/// The pool for a request, and the credential to use where the request's own is out of date.
struct Found {
    pool: Pool,
    instead: Option<Arc<Credential>>,
}

impl Generations {
    pub(crate) fn new(connector: Arc<Connector>, settings: pool::Settings) -> Self {
        Self(Arc::new(Shared {
            connector,
            settings,
            current: ArcSwapOption::empty(),
            building: Mutex::new(()),
            bare: OnceLock::new(),
        }))
    }

    fn find(&self, credential: &Arc<Credential>) -> Result<Found, Error> {
        let shared = &self.0;
        if let Some(found) = shared.known(credential) {
            return Ok(found);
        }
        // One builds, the others find what it built.
        let _building = shared.building.lock().unwrap_or_else(PoisonError::into_inner);
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
        Ok(Found { pool, instead: None })
    }

    fn bare(&self) -> Result<Pool, Error> {
        if let Some(pool) = self.0.bare.get() {
            return Ok(pool.clone());
        }
        let pool = self.0.build(None)?;
        Ok(self.0.bare.get_or_init(|| pool).clone())
    }
}

impl Shared {
    fn known(&self, credential: &Arc<Credential>) -> Option<Found> {
        let current = self.current.load();
        let current = current.as_ref()?;
        let same = same_certificate(&current.credential, credential);
        // Serials grow. An older certificate comes from a request that was overtaken by a rotation:
        // going back for it would bring the old identity to life again.
        let overtaken = credential.serial() < current.credential.serial();
        (same || overtaken).then(|| Found {
            pool: current.pool.clone(),
            instead: (!same).then(|| current.credential.clone()),
        })
    }

    fn build(&self, credential: Option<&Arc<Credential>>) -> Result<Pool, Error> {
        let trust = self.connector.trust();
        let signer = credential.and_then(|credential| credential.signer());
        let tls = match signer {
            Some(signer) => trust.signer_config(signer)?,
            None => {
                let pair = credential.and_then(|credential| credential.pair());
                trust.client_config(pair.map(AsRef::as_ref))?
            }
        };
        Ok(Pool::new(self.connector.clone(), tls, signer.cloned(), self.settings.clone()))
    }
}

/// Whether both show the same certificate, be its key here or with a signer.
pub(crate) fn same_certificate(one: &Credential, other: &Credential) -> bool {
    same(one.pair(), other.pair()) && same(one.signer(), other.signer())
}

fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

impl Carry<Body> for Generations {
    type Body = Incoming;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Lost<Error>>> + Send>>;

    fn carry(
        &self,
        mut request: Request<Body>,
        credential: Option<&Arc<Credential>>,
    ) -> Self::Future {
        let pool = self.prepare(&mut request, credential);
        let connector = Arc::clone(&self.0.connector);
        Box::pin(async move {
            let pool = pool.map_err(|error| Lost { error, again: false })?;
            pool.send(request).await.map_err(|failure| Lost {
                error: plain_for_tls(connector.origin(), failure.error),
                again: failure.again,
            })
        })
    }
}

/// Says so where a server that is to speak plain HTTP answers something that is no HTTP, or hangs up on
/// it: mostly it speaks TLS.
fn plain_for_tls(origin: &Origin, error: Error) -> Error {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<hyper::Error>());
    let what = match cause {
        Some(cause) if !origin.is_https() && cause.is_parse() => "does not answer in HTTP",
        Some(cause) if !origin.is_https() && cause.is_incomplete_message() => {
            "hung up without an answer"
        }
        _ => return error,
    };
    let secure = origin.to_string().replacen("http://", "https://", 1);
    let message = format!("`{origin}` {what}: if it serves TLS, its URL is `{secure}`");
    Error::because(error.kind(), message, error)
}

impl Generations {
    fn prepare(
        &self,
        request: &mut Request<Body>,
        credential: Option<&Arc<Credential>>,
    ) -> Result<Pool, Error> {
        let origin = self.0.connector.origin();
        if !origin.covers(request.uri()) {
            return Err(Error::new(
                Kind::OtherOrigin,
                format!("the request is not for `{origin}`"),
            ));
        }
        *request.uri_mut() = origin.place(request.uri())?;
        let Some(credential) = credential else {
            return self.bare();
        };
        let found = self.find(credential)?;
        if let Some(newer) = found.instead {
            match newer.authorization() {
                Some(value) => request.headers_mut().insert(AUTHORIZATION, value.clone()),
                None => request.headers_mut().remove(AUTHORIZATION),
            };
        }
        Ok(found.pool)
    }
}
