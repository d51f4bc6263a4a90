//! A small HTTPS client for one API server, with the credentials of a kubeconfig.

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
use keyward_host::Credential;
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tower::Service;

pub use self::builder::{Builder, Opened};
use self::headers::DefaultHeaders;
pub use crate::connect::{Secured, Trace, Tracer};
use crate::{
    Body, Error, Incoming, Origin,
    bearer::{Config, Layer, Retry},
    error::Kind,
    generation::Generations,
};

/// A client of one API server under one identity. Cheap to clone; clones share connections.
///
/// No plugin runs and no connection is opened before the first request. Redirects are not followed:
/// the caller gets them. A request for another server than the configured one is an error.
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
    config: Arc<Config>,
    generations: Generations,
    defaults: DefaultHeaders,
    limit: Option<Duration>,
}

impl Client {
    /// A client for this context, or the current one, of the kubeconfig that kubectl would use:
    /// `$KUBECONFIG` or `~/.kube/config`.
    ///
    /// Fails when the kubeconfig or the plugin policy cannot be read, or do not allow the context.
    pub fn for_context(context: Option<&str>) -> Result<Self, Error> {
        Self::builder().for_context(context).map(|(client, _)| client)
    }

    /// A client for the cluster in the request that a plugin gets in `KUBERNETES_EXEC_INFO`, with its
    /// address, TLS server name, certificate authority and proxy.
    ///
    /// The client has no credential: a request that needs one brings its own `Authorization` header. To
    /// give one to the client, set it in a [`Target`](keyward_host::Target) and use [`Builder::open`].
    ///
    /// Fails if the variable is not set or cannot be read, or if the request names no cluster, which
    /// needs `provideClusterInfo: true` in the kubeconfig, or one that is not HTTPS or cannot be used.
    ///
    /// ```no_run
    #[doc = include_str!("../../examples/token_request.rs")]
    /// ```
    pub fn from_exec_info() -> Result<Self, Error> {
        Self::builder().from_exec_info().map(|(client, _)| client)
    }

    /// Starts a client with settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server that this client talks to.
    pub fn origin(&self) -> &Origin {
        &self.0.config.origin
    }

    /// A tower layer that puts this client's credentials on the requests of any HTTP service. That
    /// service has its own connections and TLS, so a client certificate is not shown by it.
    pub fn layer(&self) -> Layer {
        Layer(self.0.config.clone())
    }

    /// Sends a `GET` request for a path of the server.
    pub fn get(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Response<Incoming>, Error>> + Send + use<> {
        let request = Request::get(path)
            .body(Body::empty())
            .map(|request| self.send(request))
            .map_err(|error| Error::because(Kind::Http, format!("`{path}` is not a path"), error));
        async move { request?.await }
    }

    /// Sends a request. A URI without a host is a path of the server.
    ///
    /// Returns any response, even a 401 if renewing the credential did not help.
    pub fn send<B: Into<Body>>(&self, request: Request<B>) -> Sending {
        self.begin(request.map(Into::into), Retry::new)
    }

    /// Sends a request with a credential that the client's [`Source`](keyward_host::Source) gave before.
    /// Never runs a plugin, and retries nothing: for questions that must not cause a login. A URI without
    /// a host is a path of the server; one of another server is an error.
    pub fn send_with(&self, request: Request<Body>, credential: &Arc<Credential>) -> Sending {
        self.begin(request, |config, connections, request| {
            Retry::with_credential(config, connections, request, credential)
        })
    }

    fn begin(
        &self,
        mut request: Request<Body>,
        retry: impl FnOnce(Arc<Config>, Generations, Request<Body>) -> Retry<Generations, Body>,
    ) -> Sending {
        let inner = &self.0;
        let method = request.method().clone();
        let decompress = inner.defaults.apply(&method, request.headers_mut());
        Sending {
            inner: retry(inner.config.clone(), inner.generations.clone(), request),
            decompress,
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
        f.debug_tuple("Client").field(&self.0.config.origin).finish()
    }
}

pin_project! {
    /// A request in flight. Dropping it cancels the request, but not a provider that runs for it: the
    /// next request gets the credential.
    #[must_use = "futures do nothing unless polled"]
    pub struct Sending {
        #[pin]
        inner: Retry<Generations, Body>,
        decompress: bool,
        limit: Option<Pin<Box<Sleep>>>,
    }
}

impl Future for Sending {
    type Output = Result<Response<Incoming>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(done) = this.inner.poll(cx) {
            return Poll::Ready(done.map(|mut response| {
                if *this.decompress && headers::decompress(response.headers_mut()) {
                    response.map(Incoming::decompressed)
                } else {
                    response
                }
            }));
        }
        match this.limit {
            Some(limit) => limit.as_mut().poll(cx).map(|()| {
                Err(Error::new(Kind::TimedOut, "no response within the configured time"))
            }),
            None => Poll::Pending,
        }
    }
}
