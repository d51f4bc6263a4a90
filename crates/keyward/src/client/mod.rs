//! A small HTTPS client for one API server, under the credentials a kubeconfig names.

mod builder;
mod headers;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower::Service;

pub use self::builder::Builder;
use self::headers::Defaults;
use crate::{
    Body, Error, Incoming, Origin,
    bearer::{Guard, Heal, Layer},
    error::Kind,
    generation::Generations,
};

/// A client of one API server as one identity. Cheap to clone; clones share connections.
///
/// Nothing is run and nobody is connected to before the first request. Redirects are not followed:
/// the caller sees them, and a request for another server than the configured one is an error.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let client = keyward::Client::for_context(Some("prod"))?;
/// let response = client.get("/version").await?;
/// println!("{}", response.into_body().text().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    guard: Arc<Guard>,
    generations: Generations,
    defaults: Defaults,
    limit: Option<Duration>,
}

impl Client {
    /// The client that kubectl would be: `$KUBECONFIG` or `~/.kube/config`, this context of it or
    /// the current one.
    ///
    /// Fails when the kubeconfig or the plugin policy cannot be read, or do not allow the context.
    pub fn for_context(context: Option<&str>) -> Result<Self, Error> {
        Self::builder().for_context(context).map(|(client, _)| client)
    }

    /// For everything that can be set.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server this client is for.
    pub fn origin(&self) -> &Origin {
        &self.0.guard.origin
    }

    /// The same credentials for a client of one's own: a tower layer for any HTTP service. Its
    /// connections are its own too, and so is their TLS: a certificate is shown only by ours.
    pub fn layer(&self) -> Layer {
        Layer::guarded_by(self.0.guard.clone())
    }

    /// Asks for a path of the server.
    pub fn get(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Response<Incoming>, Error>> + Send + use<> {
        let request = Request::get(path)
            .body(Body::empty())
            .map(|request| self.start(request))
            .map_err(|error| Error::because(Kind::Http, format!("`{path}` is not a path"), error));
        async move { request?.await }
    }

    /// Sends a request. A URI without a host is taken as a path of the server.
    ///
    /// The response may be any, a 401 too if renewing the credential did not help.
    pub fn send<B: Into<Body>>(&self, request: Request<B>) -> Sending {
        self.start(request.map(Into::into))
    }

    fn start(&self, mut request: Request<Body>) -> Sending {
        let inner = &self.0;
        let method = request.method().clone();
        let unpack = inner.defaults.apply(&method, request.headers_mut());
        Sending {
            inner: Heal::new(inner.guard.clone(), inner.generations.clone(), request),
            unpack,
            limit: inner.limit.map(|limit| Box::pin(tokio::time::sleep(limit))),
        }
    }
}

/// A client is a service that is always ready.
impl<B: Into<Body>> Service<Request<B>> for Client {
    type Response = Response<Incoming>;
    type Error = Error;
    type Future = Sending;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Sending {
        self.send(request)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.guard.origin).finish()
    }
}

pin_project! {
    /// A request on its way. Dropping it gives the request up; a provider that is running for it
    /// runs on for the next one.
    #[must_use = "futures do nothing unless polled"]
    pub struct Sending {
        #[pin]
        inner: Heal<Generations, Body>,
        unpack: bool,
        limit: Option<Pin<Box<Sleep>>>,
    }
}

impl Future for Sending {
    type Output = Result<Response<Incoming>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.inner.poll(cx) {
            return Poll::Ready(done.map(|mut response| {
                if *this.unpack && headers::unpack(response.headers_mut()) {
                    response.map(Incoming::unpacked)
                } else {
                    response
                }
            }));
        }
        match this.limit {
            Some(limit) => limit.as_mut().poll(cx).map(|()| {
                Err(Error::new(Kind::TimedOut, "there was no response in the time set for it"))
            }),
            None => Poll::Pending,
        }
    }
}
