//! A tower layer that puts a credential on requests, and renews it when a server rejects it.
//!
//! The layer fits in front of any service of `http` requests:
//!
//! - A request that has an `Authorization` header (or, of a WebSocket client, a token among its
//!   protocols), or goes to another origin than the configured one, is passed on as it is.
//! - Any other request gets the ready-made header of the current credential. If there is none yet, the
//!   request's future waits for the provider; `poll_ready` never waits and never fails, because one
//!   error there ends a buffered service for good.
//! - On a 401 (and, if enabled, a 403) the credential is renewed, once for all requests that were
//!   rejected. A request is retried if its body can be sent again and the new credential differs from
//!   the old one; otherwise the caller gets the rejection. If the new credential is revoked too, after
//!   the server had accepted it from another request, the request is retried again, three times at most.

mod retry;

use std::{
    error::Error as StdError,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use http::{Request, Response, StatusCode};
use keyward_host::{Credential, Source, ThreadCopies};
use pin_project_lite::pin_project;
use tower::{Service, util::Oneshot};

pub use self::retry::has_own_credential;
pub(crate) use self::retry::{Retry, SendError, Transport};
use crate::{Origin, Replay};

/// What a [`Bearer`] fails with: the inner service's error, or a [`keyward_host::Error`].
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Makes a [`Bearer`] of any service.
#[derive(Clone)]
pub struct Layer(pub(crate) Arc<Config>);

/// Decides which requests get a credential, from where, and when it is renewed.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) source: Source,
    pub(crate) origin: Origin,
    pub(crate) replay: bool,
    pub(crate) refresh_on_403: bool,
    pub(crate) outcomes: Arc<Outcomes>,
}

/// The newest credentials that this server has accepted and rejected, shared by all clones. The first is
/// written once for each credential and only read afterwards.
#[derive(Default)]
pub(crate) struct Outcomes {
    accepted: AtomicU64,
    rejected: AtomicU64,
}

impl Outcomes {
    /// The server answered a request with this credential, and did not reject it.
    #[inline]
    fn accept(&self, credential: &Credential) {
        // Serials grow, so a late answer to an old credential changes nothing.
        if self.accepted.load(Ordering::Relaxed) < number(credential) {
            self.accepted.fetch_max(number(credential), Ordering::Relaxed);
        }
    }

    fn has_accepted(&self, credential: &Credential) -> bool {
        self.accepted.load(Ordering::Relaxed) == number(credential)
    }

    /// The server rejected this credential. Returns whether the server has accepted one since the last
    /// rejection, in which case the provider is not to blame for a row of bad ones.
    fn reject(&self, credential: &Credential) -> bool {
        self.reject_number(number(credential))
    }

    fn reject_number(&self, number: u64) -> bool {
        let before = self.rejected.fetch_max(number, Ordering::Relaxed);
        self.accepted.load(Ordering::Relaxed) > before
    }
}

/// The serial plus one: zero stands for no credential.
fn number(credential: &Credential) -> u64 {
    credential.serial() + 1
}

impl Layer {
    /// Puts credentials of `source` on requests to `origin`, and on no others.
    pub fn new(source: Source, origin: Origin) -> Self {
        Self(Arc::new(Config {
            source,
            origin,
            replay: true,
            refresh_on_403: false,
            outcomes: Arc::default(),
        }))
    }

    /// Never sends a request twice, and so copies none. A caller whose credential is rejected gets the
    /// 401; the next request gets a new credential.
    #[must_use]
    pub fn without_replay(self) -> Self {
        self.change(|config| config.replay = false)
    }

    /// Treats a 403 like a 401, for providers whose credentials carry permissions that change.
    #[must_use]
    pub fn refresh_on_403(self) -> Self {
        self.change(|config| config.refresh_on_403 = true)
    }

    fn change(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }
}

impl Config {
    pub(crate) fn is_rejection(&self, status: StatusCode) -> bool {
        status == StatusCode::UNAUTHORIZED
            || (self.refresh_on_403 && status == StatusCode::FORBIDDEN)
    }
}

impl<S> tower::Layer<S> for Layer {
    type Service = Bearer<S>;

    fn layer(&self, inner: S) -> Bearer<S> {
        Bearer {
            inner: ServiceTransport(inner),
            configs: Arc::new(ThreadCopies::new(|| (*self.0).clone())),
        }
    }
}

/// A service that puts a credential on each request. Made by a [`Layer`].
///
/// Always ready: the request's future waits for a clone of the inner service.
#[derive(Clone)]
pub struct Bearer<S> {
    inner: ServiceTransport<S>,
    configs: Arc<ThreadCopies<Config>>,
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
        Sending { inner: Retry::new(self.configs.mine(), self.inner.clone(), request) }
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
        inner: Retry<ServiceTransport<S>, B>,
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

/// Sends requests by a service that knows nothing of credentials.
#[derive(Clone)]
struct ServiceTransport<S>(S);

impl<S, B, R> Transport<B> for ServiceTransport<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    type Body = R;
    type Error = BoxError;
    type Future = Sent<S, B>;

    fn send(&self, request: Request<B>, _credential: Option<&Arc<Credential>>) -> Sent<S, B> {
        let mut service = self.0.clone();
        // Nearly every service is ready at once, and takes the request without its being moved again.
        // One that is not is polled with the waker of the request's future from then on.
        match service.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => Sent::Called { response: service.call(request) },
            Poll::Ready(Err(error)) => Sent::Failed { error: Some(error) },
            Poll::Pending => Sent::Waiting { service: Box::pin(Oneshot::new(service, request)) },
        }
    }
}

pin_project! {
    /// A request that was handed to a service.
    #[project = ProjectedSent]
    enum Sent<S, B>
    where
        S: Service<Request<B>>,
    {
        Called { #[pin] response: S::Future },
        Failed { error: Option<S::Error> },
        Waiting { service: Pin<Box<Oneshot<S, Request<B>>>> },
    }
}

impl<S, B> Future for Sent<S, B>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Output = Result<S::Response, SendError<BoxError>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self.project() {
            ProjectedSent::Called { response } => ready!(response.poll(cx)),
            ProjectedSent::Failed { error } => match error.take() {
                Some(error) => Err(error),
                None => unreachable!("a future is not polled again after its result"),
            },
            ProjectedSent::Waiting { service } => ready!(service.as_mut().poll(cx)),
        };
        let failed = |error: S::Error| SendError { error: error.into(), retryable: false };
        Poll::Ready(response.map_err(failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_in_a_row_unless_a_credential_was_accepted_in_between() {
        let outcomes = Outcomes::default();
        assert!(!outcomes.reject_number(1), "nothing was ever accepted");
        assert!(!outcomes.reject_number(2));
        outcomes.accepted.store(3, Ordering::Relaxed);
        assert!(outcomes.reject_number(4), "3 was accepted, and 4 never was good");
        assert!(!outcomes.reject_number(4), "another request with the same one");
        assert!(!outcomes.reject_number(5));
        outcomes.accepted.store(6, Ordering::Relaxed);
        assert!(outcomes.reject_number(6), "6 was accepted, and is revoked");
    }
}
