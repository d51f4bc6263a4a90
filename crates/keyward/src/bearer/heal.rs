//! One request from its first sending to the response the caller sees.

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

use super::Guard;
use crate::{Replay, generation::same_certificate};

/// How often a request is sent again because its connection ended under it.
const RESENDS: u8 = 3;
/// How often a request is sent with a new credential because the one before was revoked.
const RENEWALS: u8 = 3;

/// Sends a request, on a connection that fits the credential where it has connections.
pub(crate) trait Carry<B> {
    type Body;
    type Error: From<keyward_host::Error>;
    type Future: Future<Output = Result<Response<Self::Body>, Lost<Self::Error>>>;

    fn carry(&self, request: Request<B>, credential: Option<&Arc<Credential>>) -> Self::Future;
}

/// Why there is no response, and whether a copy of the request may be sent.
pub(crate) struct Lost<E> {
    pub(crate) error: E,
    pub(crate) again: bool,
}

type Asking = Pin<Box<dyn Future<Output = Result<Arc<Credential>, keyward_host::Error>> + Send>>;

pin_project! {
    /// The future of a request. Without a refusal its only allocation is the copy for a replay.
    pub(crate) struct Heal<C, B>
    where
        C: Carry<B>,
    {
        guard: Arc<Guard>,
        carrier: C,
        credential: Option<Arc<Credential>>,
        copy: Option<Copy<B>>,
        resends: u8,
        renewals: u8,
        #[pin]
        state: State<C::Future, B, C::Body>,
    }
}

pin_project! {
    #[project = Now]
    enum State<F, B, R> {
        /// There is no credential yet.
        Asking { asking: Asking, request: Option<Request<B>> },
        Sending { #[pin] sending: F },
        /// The credential was refused; the refusal is kept for the caller.
        Renewing { asking: Asking, refusal: Option<Response<R>> },
    }
}

/// What a request is made of again. Most never are, so the headers are kept as a list, which costs
/// less to copy than the table that they are found in.
struct Copy<B> {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    extensions: Extensions,
    body: B,
}

impl<C: Carry<B>, B: Replay> Heal<C, B> {
    pub(crate) fn new(guard: Arc<Guard>, carrier: C, request: Request<B>) -> Self {
        let foreign = brings_own(request.headers()) || !guard.origin.covers(request.uri());
        let mut copy = None;
        let mut credential = None;
        let state = if foreign {
            State::Sending { sending: carrier.carry(request, None) }
        } else if let Some(current) = guard.source.current() {
            copy = Copy::of(&request, &guard);
            let sending = carrier.carry(authorized(request, &current), Some(&current));
            credential = Some(current);
            State::Sending { sending }
        } else {
            State::Asking { asking: ask(&guard), request: Some(request) }
        };
        Self { guard, carrier, credential, copy, resends: 0, renewals: 0, state }
    }
}

impl<C: Carry<B>, B: Replay> Future for Heal<C, B> {
    type Output = Result<Response<C::Body>, C::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                Now::Asking { asking, request } => {
                    let current = ready!(asking.as_mut().poll(cx))?;
                    let Some(request) = request.take() else {
                        unreachable!("the request leaves this state with its credential");
                    };
                    *this.copy = Copy::of(&request, this.guard);
                    let request = authorized(request, &current);
                    let sending = this.carrier.carry(request, Some(&current));
                    *this.credential = Some(current);
                    State::Sending { sending }
                }
                Now::Sending { sending } => match ready!(sending.poll(cx)) {
                    Ok(response) => {
                        let Some(used) = &*this.credential else {
                            return Poll::Ready(Ok(response));
                        };
                        let status = response.status();
                        if !this.guard.is_refusal(status) {
                            // An overloaded server, or a proxy before it, may not have looked.
                            if !status.is_server_error() {
                                this.guard.accepted.note(used);
                            }
                            return Poll::Ready(Ok(response));
                        }
                        let revoked = this.guard.accepted.has(used);
                        let told = told(status, response.headers());
                        let recovered = this.guard.accepted.refuse(used);
                        this.guard.source.refused(used, recovered, Some(Arc::new(told)));
                        let hopeful = *this.renewals == 0 || revoked && *this.renewals < RENEWALS;
                        if !hopeful || this.copy.as_mut().is_none_or(|copy| !copy.body.claim()) {
                            return Poll::Ready(Ok(response));
                        }
                        State::Renewing { asking: ask(this.guard), refusal: Some(response) }
                    }
                    Err(Lost { error, again }) => {
                        let copy = this.copy.as_ref().and_then(Copy::replay);
                        match (copy, &*this.credential) {
                            (Some(copy), Some(used)) if again && *this.resends < RESENDS => {
                                *this.resends += 1;
                                tracing::debug!(
                                    "the connection ended under a request, sending it again"
                                );
                                let request = authorized(copy.into_request(), used);
                                let sending = this.carrier.carry(request, Some(used));
                                State::Sending { sending }
                            }
                            _ => return Poll::Ready(Err(error)),
                        }
                    }
                },
                Now::Renewing { asking, refusal } => {
                    let renewed = ready!(asking.as_mut().poll(cx));
                    let Some(refusal) = refusal.take() else {
                        unreachable!("the refusal leaves this state with it");
                    };
                    let (Some(used), Some(copy)) = (this.credential.take(), this.copy.take())
                    else {
                        return Poll::Ready(Ok(refusal));
                    };
                    match renewed {
                        Ok(renewed) if differs(&used, &renewed) => {
                            tracing::debug!(
                                status = refusal.status().as_u16(),
                                "renewed a refused credential"
                            );
                            *this.copy = copy.replay();
                            let request = authorized(copy.into_request(), &renewed);
                            let sending = this.carrier.carry(request, Some(&renewed));
                            *this.credential = Some(renewed);
                            *this.renewals += 1;
                            State::Sending { sending }
                        }
                        Ok(_) => return Poll::Ready(Ok(refusal)),
                        Err(error) => {
                            tracing::debug!(%error, "a refused credential could not be renewed");
                            return Poll::Ready(Ok(refusal));
                        }
                    }
                }
            };
            this.state.set(next);
        }
    }
}

impl<B: Replay> Copy<B> {
    fn of(request: &Request<B>, guard: &Guard) -> Option<Self> {
        if guard.replay { Self::kept(request) } else { None }
    }

    fn kept(request: &Request<B>) -> Option<Self> {
        let body = request.body().replay()?;
        let mut headers = Vec::with_capacity(request.headers().len());
        let each = request.headers().iter();
        headers.extend(each.map(|(name, value)| (name.clone(), value.clone())));
        Some(Self {
            body,
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers,
            extensions: request.extensions().clone(),
        })
    }

    fn replay(&self) -> Option<Self> {
        Some(Self {
            body: self.body.replay()?,
            method: self.method.clone(),
            uri: self.uri.clone(),
            version: self.version,
            headers: self.headers.clone(),
            extensions: self.extensions.clone(),
        })
    }

    fn into_request(self) -> Request<B> {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        *request.extensions_mut() = self.extensions;
        for (name, value) in self.headers {
            request.headers_mut().append(name, value);
        }
        request
    }
}

/// Whether a request says itself on whose behalf it comes. Where a WebSocket client cannot set the
/// header, the server takes the token from among the names of protocols.
pub fn brings_own(headers: &HeaderMap) -> bool {
    const TOKEN: &str = "base64url.bearer.authorization.k8s.io.";
    headers.contains_key(AUTHORIZATION)
        || headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().any(|value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            text.split(',').any(|protocol| protocol.trim().starts_with(TOKEN))
        })
}

fn ask(guard: &Guard) -> Asking {
    let source = guard.source.clone();
    Box::pin(async move { source.credential().await })
}

fn authorized<B>(mut request: Request<B>, credential: &Credential) -> Request<B> {
    if let Some(value) = credential.authorization() {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
    }
    request
}

/// Whether sending again can make a difference: a provider may answer with what it answered
/// before.
fn differs(old: &Arc<Credential>, new: &Arc<Credential>) -> bool {
    let same = same_certificate(old, new) && old.authorization() == new.authorization();
    old.serial() != new.serial() && !same
}

/// The refusal as a v1alpha1 plugin is told of it.
fn told(status: StatusCode, headers: &HeaderMap) -> exec::Response {
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
    fn a_copy_is_the_request_again() {
        let mut request = Request::put("/a?b=c")
            .version(Version::HTTP_2)
            .extension(7)
            .body("x".to_owned())
            .unwrap();
        for (name, value) in [("accept", "a"), ("x-two", "1"), ("accept", "b"), ("x-two", "2")] {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let again = Copy::kept(&request).unwrap().replay().unwrap().into_request();
        assert_eq!((again.method(), again.uri()), (request.method(), request.uri()));
        assert_eq!((again.version(), again.headers()), (request.version(), request.headers()));
        assert_eq!((again.extensions().get(), again.body()), (Some(&7), request.body()));
    }

    #[test]
    fn a_refusal_is_told_with_all_values_of_a_name() {
        let mut headers = HeaderMap::new();
        headers.append("www-authenticate", "Basic".parse().unwrap());
        headers.append("www-authenticate", "Bearer".parse().unwrap());
        let told = told(StatusCode::UNAUTHORIZED, &headers);
        assert_eq!(told.code, 401);
        let values = vec!["Basic".to_owned(), "Bearer".to_owned()];
        assert_eq!(told.header, [("Www-Authenticate".to_owned(), values)]);
    }
}
