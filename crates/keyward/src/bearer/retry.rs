//! Sends one request, and retries it with a renewed credential or on another connection.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    Version,
    header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL},
};
use keyward_host::Credential;
use keyward_protocol::exec;
use pin_project_lite::pin_project;

use super::Config;
use crate::{Replay, generation::same_certificate};

/// How often a request is sent again because its connection ended.
const RESENDS: u8 = 3;
/// How often a request is sent with a new credential, because the one before was rejected. From the second
/// time on, the server must have accepted that one first: it was revoked.
const RENEWALS: u8 = 3;

/// Sends a request, on a connection that fits the credential where it has connections.
pub(crate) trait Transport<B> {
    type Body;
    type Error: From<keyward_host::Error>;
    type Future: Future<Output = Result<Response<Self::Body>, SendError<Self::Error>>>;

    fn send(&self, request: Request<B>, credential: Option<&Arc<Credential>>) -> Self::Future;
}

/// Why there is no response, and whether the request may be sent again.
pub(crate) struct SendError<E> {
    pub(crate) error: E,
    pub(crate) retryable: bool,
}

type CredentialFuture =
    Pin<Box<dyn Future<Output = Result<Arc<Credential>, keyward_host::Error>> + Send>>;

pin_project! {
    /// The future of a request. Without a rejection its only allocations are those of the saved request.
    pub(crate) struct Retry<C, B>
    where
        C: Transport<B>,
    {
        config: Arc<Config>,
        transport: C,
        credential: Option<Arc<Credential>>,
        saved: Option<SavedRequest<B>>,
        resends: u8,
        renewals: u8,
        #[pin]
        state: State<C::Future, B, C::Body>,
    }
}

pin_project! {
    /// Boxed is what few requests need: the future of every request is moved.
    #[project = Projected]
    enum State<F, B, R> {
        /// There is no credential yet.
        Fetching { fetching: CredentialFuture, request: Option<Box<Request<B>>> },
        Sending { #[pin] sending: F },
        /// The credential was rejected; the caller gets the rejection unless a retry succeeds.
        Renewing { fetching: CredentialFuture, rejection: Option<Box<Response<R>>> },
    }
}

/// A copy of a request, for a retry.
struct SavedRequest<B> {
    head: SavedHead,
    body: B,
}

/// All of a request but its body. Most requests are never retried, so the headers are saved as a list,
/// which is cheaper to copy than the map they came in.
#[derive(Clone)]
struct SavedHead {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    extensions: Extensions,
}

impl<C: Transport<B>, B: Replay> Retry<C, B> {
    pub(crate) fn new(config: Arc<Config>, transport: C, mut request: Request<B>) -> Self {
        let foreign = has_own_credential(request.headers()) || !config.origin.covers(request.uri());
        let mut saved = None;
        let mut credential = None;
        let state = if foreign {
            State::Sending { sending: transport.send(request, None) }
        } else if let Some(current) = config.source.current() {
            saved = SavedRequest::of(&request, &config);
            authorize(&mut request, &current);
            let sending = transport.send(request, Some(&current));
            credential = Some(current);
            State::Sending { sending }
        } else {
            State::Fetching { fetching: fetch(&config), request: Some(Box::new(request)) }
        };
        Self { config, transport, credential, saved, resends: 0, renewals: 0, state }
    }

    /// Sends a request with this credential and no other: nothing is renewed, whatever the answer.
    pub(crate) fn with_credential(
        config: Arc<Config>,
        transport: C,
        mut request: Request<B>,
        credential: &Arc<Credential>,
    ) -> Self {
        authorize(&mut request, credential);
        let sending = transport.send(request, Some(credential));
        let state = State::Sending { sending };
        Self { config, transport, credential: None, saved: None, resends: 0, renewals: 0, state }
    }
}

impl<C: Transport<B>, B: Replay> Future for Retry<C, B> {
    type Output = Result<Response<C::Body>, C::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                Projected::Fetching { fetching, request } => {
                    let current = ready!(fetching.as_mut().poll(cx))?;
                    let Some(mut request) = request.take() else {
                        unreachable!("the request leaves this state with its credential");
                    };
                    *this.saved = SavedRequest::of(&request, this.config);
                    authorize(&mut request, &current);
                    let sending = this.transport.send(*request, Some(&current));
                    *this.credential = Some(current);
                    State::Sending { sending }
                }
                Projected::Sending { sending } => match ready!(sending.poll(cx)) {
                    Ok(response) => {
                        let Some(used) = &*this.credential else {
                            return Poll::Ready(Ok(response));
                        };
                        let status = response.status();
                        if !this.config.is_rejection(status) {
                            // An overloaded server, or a proxy before it, may not have looked.
                            if !status.is_server_error() {
                                this.config.outcomes.accept(used);
                            }
                            return Poll::Ready(Ok(response));
                        }
                        let revoked = this.config.outcomes.has_accepted(used);
                        let seen = Arc::new(plugin_response(status, response.headers()));
                        let was_accepted = this.config.outcomes.reject(used);
                        this.config.source.rejected(used, was_accepted, Some(seen));
                        let renewals = *this.renewals;
                        let may_retry = renewals == 0 || (revoked && renewals < RENEWALS);
                        if !may_retry || this.saved.as_mut().is_none_or(|saved| !saved.body.claim())
                        {
                            return Poll::Ready(Ok(response));
                        }
                        let rejection = Some(Box::new(response));
                        State::Renewing { fetching: fetch(this.config), rejection }
                    }
                    Err(SendError { error, retryable }) => {
                        let saved = this.saved.as_ref().and_then(SavedRequest::replay);
                        match (saved, &*this.credential) {
                            (Some(saved), Some(used)) if retryable && *this.resends < RESENDS => {
                                *this.resends += 1;
                                tracing::debug!("the connection ended, sending the request again");
                                let mut request = saved.into_request();
                                authorize(&mut request, used);
                                let sending = this.transport.send(request, Some(used));
                                State::Sending { sending }
                            }
                            _ => return Poll::Ready(Err(error)),
                        }
                    }
                },
                Projected::Renewing { fetching, rejection } => {
                    let renewed = ready!(fetching.as_mut().poll(cx));
                    let Some(rejection) = rejection.take() else {
                        unreachable!("the rejection leaves this state with the new credential");
                    };
                    let (Some(used), Some(saved)) = (this.credential.take(), this.saved.take())
                    else {
                        return Poll::Ready(Ok(*rejection));
                    };
                    match renewed {
                        Ok(renewed) if differs(&used, &renewed) => {
                            tracing::debug!(
                                status = rejection.status().as_u16(),
                                "renewed a rejected credential"
                            );
                            *this.saved = saved.replay();
                            let mut request = saved.into_request();
                            authorize(&mut request, &renewed);
                            let sending = this.transport.send(request, Some(&renewed));
                            *this.credential = Some(renewed);
                            *this.renewals += 1;
                            State::Sending { sending }
                        }
                        Ok(_) => return Poll::Ready(Ok(*rejection)),
                        Err(error) => {
                            tracing::debug!(%error, "a rejected credential could not be renewed");
                            return Poll::Ready(Ok(*rejection));
                        }
                    }
                }
            };
            this.state.set(next);
        }
    }
}

impl<B: Replay> SavedRequest<B> {
    /// `None` if requests are not retried, or the body cannot be sent twice.
    fn of(request: &Request<B>, config: &Config) -> Option<Self> {
        if config.replay { Self::save(request) } else { None }
    }

    fn save(request: &Request<B>) -> Option<Self> {
        let body = request.body().replay()?;
        let mut headers = Vec::with_capacity(request.headers().len());
        let each = request.headers().iter();
        headers.extend(each.map(|(name, value)| (name.clone(), value.clone())));
        let head = SavedHead {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers,
            extensions: request.extensions().clone(),
        };
        Some(Self { head, body })
    }

    fn replay(&self) -> Option<Self> {
        Some(Self { body: self.body.replay()?, head: self.head.clone() })
    }

    fn into_request(self) -> Request<B> {
        let SavedHead { method, uri, version, headers, extensions } = self.head;
        let mut request = Request::new(self.body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.version_mut() = version;
        *request.extensions_mut() = extensions;
        for (name, value) in headers {
            request.headers_mut().append(name, value);
        }
        request
    }
}

/// Whether a request carries a credential of its own: the `Authorization` header or, from a WebSocket
/// client that cannot set it, a token among the names of protocols.
pub fn has_own_credential(headers: &HeaderMap) -> bool {
    const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";
    // One pass over the few headers of a request is quicker than two lookups.
    headers.iter().any(|(name, value)| {
        name == AUTHORIZATION
            || name == SEC_WEBSOCKET_PROTOCOL && {
                let text = String::from_utf8_lossy(value.as_bytes());
                text.split(',').any(|protocol| protocol.trim().starts_with(TOKEN))
            }
    })
}

fn fetch(config: &Config) -> CredentialFuture {
    let source = config.source.clone();
    Box::pin(async move { source.credential().await })
}

fn authorize<B>(request: &mut Request<B>, credential: &Credential) {
    if let Some(value) = credential.authorization() {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
    }
}

/// Whether a retry can make a difference: a provider may return the credential that was rejected.
fn differs(old: &Arc<Credential>, new: &Arc<Credential>) -> bool {
    let same = same_certificate(old, new) && old.authorization() == new.authorization();
    old.serial() != new.serial() && !same
}

/// The rejection in the form in which a v1alpha1 plugin gets it.
fn plugin_response(status: StatusCode, headers: &HeaderMap) -> exec::Response {
    let header = headers
        .keys()
        .map(|name| {
            let values = headers.get_all(name).iter();
            let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            (canonical(name), values.collect())
        })
        .collect();
    exec::Response { code: status.as_u16(), header }
}

/// `www-authenticate` as `Www-Authenticate`, the way Go spells names.
fn canonical(name: &HeaderName) -> String {
    let mut start = true;
    name.as_str()
        .chars()
        .map(|letter| {
            let upper = std::mem::replace(&mut start, letter == '-');
            if upper { letter.to_ascii_uppercase() } else { letter }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_saved_request_equals_the_original() {
        let mut request = Request::put("/a?b=c")
            .version(Version::HTTP_2)
            .extension(7)
            .body("x".to_owned())
            .unwrap();
        for (name, value) in [("accept", "a"), ("x-two", "1"), ("accept", "b"), ("x-two", "2")] {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let again = SavedRequest::save(&request).unwrap().replay().unwrap().into_request();
        assert_eq!((again.method(), again.uri()), (request.method(), request.uri()));
        assert_eq!((again.version(), again.headers()), (request.version(), request.headers()));
        assert_eq!((again.extensions().get(), again.body()), (Some(&7), request.body()));
    }

    #[test]
    fn a_plugin_gets_all_values_of_a_header() {
        let mut headers = HeaderMap::new();
        headers.append("www-authenticate", "Basic".parse().unwrap());
        headers.append("www-authenticate", "Bearer".parse().unwrap());
        let response = plugin_response(StatusCode::UNAUTHORIZED, &headers);
        assert_eq!(response.code, 401);
        let values = vec!["Basic".to_owned(), "Bearer".to_owned()];
        assert_eq!(response.header, [("Www-Authenticate".to_owned(), values)]);
    }
}
