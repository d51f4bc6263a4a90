//! A tower layer that puts a credential on requests, and renews it when a server refuses it.
//!
//! It fits before any service of `http` requests:
//!
//! - A request that has an `Authorization` header (or, of a WebSocket client, a token among its
//!   protocols), or goes to another origin than the configured one, is passed on as it is.
//! - Any other gets the ready-made header of the current credential. If there is none yet, the
//!   request's own future waits for the provider; `poll_ready` never does, and never fails, because
//!   one error there ends a buffered service for good.
//! - On a 401 (and, where that is switched on, a 403) the credential is renewed, once for everybody
//!   who was refused, and the request is sent once more if its body can be and the credential
//!   really is another one. Else the caller gets the refusal. A request whose new credential is
//!   revoked as well, after the server had accepted it from another request, gets one more.

mod heal;

use std::{
    error::Error as StdError,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use http::{Request, Response, StatusCode};
use keyward_host::{Credential, Source, cell::lane};
use pin_project_lite::pin_project;
use tower::{Service, util::Oneshot};

pub use self::heal::brings_own;
pub(crate) use self::heal::{Carry, Heal, Lost};
use crate::{Origin, Replay};

/// What a [`Bearer`] fails with: the inner service's error, or a [`keyward_host::Error`].
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Makes a [`Bearer`] of any service.
#[derive(Clone)]
pub struct Layer(Arc<Guard>);

/// When credentials are put on and renewed.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) source: Source,
    pub(crate) origin: Origin,
    pub(crate) replay: bool,
    pub(crate) on_403: bool,
    pub(crate) accepted: Accepted,
}

/// The newest credentials this server has accepted and refused. All clones share them; the first is written
/// once for each credential and only read afterwards.
#[derive(Clone, Default)]
pub(crate) struct Accepted(Arc<Newest>);

#[derive(Default)]
struct Newest {
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Accepted {
    /// The server answered a request with this credential, and did not refuse it.
    #[inline]
    fn note(&self, credential: &Credential) {
        // Serials grow, so a late answer to an old credential changes nothing.
        if self.0.accepted.load(Ordering::Relaxed) < newest(credential) {
            self.0.accepted.fetch_max(newest(credential), Ordering::Relaxed);
        }
    }

    fn has(&self, credential: &Credential) -> bool {
        self.0.accepted.load(Ordering::Relaxed) == newest(credential)
    }

    /// The server refused this credential. Returns whether it has accepted one since the refusal before:
    /// then this is not more of the same.
    fn refuse(&self, credential: &Credential) -> bool {
        self.0.refuse(newest(credential))
    }
}

impl Newest {
    fn refuse(&self, number: u64) -> bool {
        let before = self.refused.fetch_max(number, Ordering::Relaxed);
        self.accepted.load(Ordering::Relaxed) > before
    }
}

/// The serial, above zero, which stands for none.
fn newest(credential: &Credential) -> u64 {
    credential.serial() + 1
}

impl Layer {
    /// Credentials of `source` for requests to `origin`, and to no other.
    pub fn new(source: Source, origin: Origin) -> Self {
        Self(Arc::new(Guard {
            source,
            origin,
            replay: true,
            on_403: false,
            accepted: Accepted::default(),
        }))
    }

    pub(crate) fn guarded_by(guard: Arc<Guard>) -> Self {
        Self(guard)
    }

    /// Never sends a request twice, and so makes no copies. The refused caller gets the 401, the
    /// next one a new credential.
    #[must_use]
    pub fn without_replay(self) -> Self {
        self.change(|guard| guard.replay = false)
    }

    /// Treats a 403 like a 401, for providers whose credentials carry rights that change.
    #[must_use]
    pub fn refresh_on_403(self) -> Self {
        self.change(|guard| guard.on_403 = true)
    }

    fn change(mut self, change: impl FnOnce(&mut Guard)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl Guard {
    pub(crate) fn is_refusal(&self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED || (self.on_403 && status == StatusCode::FORBIDDEN)
    }
}

impl<S> tower::Layer<S> for Layer {
    type Service = Bearer<S>;

    fn layer(&self, inner: S) -> Bearer<S> {
        Bearer { inner: Through(inner), guards: Guards::of(&self.0) }
    }
}

/// A service that puts a credential on each request. Made by a [`Layer`].
///
/// It is always ready: the inner service, a clone of it, is waited for in the request's future.
#[derive(Clone)]
pub struct Bearer<S> {
    inner: Through<S>,
    guards: Guards,
}

/// A guard in copies, so that threads that send at the same time do not fight for one reference count.
#[derive(Clone)]
struct Guards(Arc<[Arc<Guard>; COPIES]>);

/// Threads beyond this share.
const COPIES: usize = 8;

impl Guards {
    fn of(guard: &Guard) -> Self {
        Self(Arc::new(std::array::from_fn(|_| Arc::new(guard.clone()))))
    }

    /// The copy of this thread.
    fn mine(&self) -> Arc<Guard> {
        self.0[lane() % COPIES].clone()
    }
}

impl<S, B, R> Service<Request<B>> for Bearer<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: Replay,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = Sending<S, B, R>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Sending { inner: Heal::new(self.guards.mine(), self.inner.clone(), request) }
    }
}

pin_project! {
    /// A request on its way through a [`Bearer`].
    pub struct Sending<S, B, R>
    where
        S: Service<Request<B>, Response = Response<R>>,
        S: Clone,
        S::Error: Into<BoxError>,
        B: Replay,
    {
        #[pin]
        inner: Heal<Through<S>, B>,
    }
}

impl<S, B, R> Future for Sending<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: Replay,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx)
    }
}

/// Hands requests to a service that knows nothing of credentials.
#[derive(Clone)]
struct Through<S>(S);

impl<S, B, R> Carry<B> for Through<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    type Body = R;
    type Error = BoxError;
    type Future = Passing<S, B>;

    fn carry(&self, request: Request<B>, _credential: Option<&Arc<Credential>>) -> Self::Future {
        Passing { inner: Oneshot::new(self.0.clone(), request) }
    }
}

pin_project! {
    struct Passing<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        inner: Oneshot<S, Request<B>>,
    }
}

impl<S, B, R> Future for Passing<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
{
    type Output = Result<Response<R>, Lost<BoxError>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = ready!(self.project().inner.poll(cx));
        Poll::Ready(done.map_err(|error| Lost { error: error.into(), again: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_more_of_the_same_unless_a_credential_was_accepted_since_the_last() {
        let newest = Newest::default();
        assert!(!newest.refuse(1), "nothing was ever accepted");
        assert!(!newest.refuse(2));
        newest.accepted.store(3, Ordering::Relaxed);
        assert!(newest.refuse(4), "3 was accepted, and 4 never was good");
        assert!(!newest.refuse(4), "another request with the same one");
        assert!(!newest.refuse(5));
        newest.accepted.store(6, Ordering::Relaxed);
        assert!(newest.refuse(6), "6 was accepted, and is revoked");
    }
}
