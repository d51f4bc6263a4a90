//! From a kubeconfig context to a [`kube::Client`] with credentials that rotate.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Pod;
//! let client = keyward_kube::client(Some("prod"))?;
//! for pod in kube::Api::<Pod>::default_namespaced(client).list(&Default::default()).await? {
//!     println!("{}", pod.metadata.name.unwrap_or_default());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is run and nobody is connected to before the first request. All clients of one identity
//! share one credential, and so one run of its plugin. A refused credential is renewed and the
//! request sent again; a new certificate is shown by every new connection while watches under the
//! old one go on. Watches, logs, exec, attach and port-forward work as with kube's own client.
//!
//! It is apart from `keyward` because kube's major versions come fast.

mod body;

use std::task::{Context, Poll};

use http::{Request, Response};
use keyward::{Client, Error, Incoming, client::Sending};
use keyward_host::Target;
use tower::Service;

/// A client for this context of the kubeconfig that kubectl would read, or the current one.
///
/// Must be called inside a tokio runtime, as all of kube's constructors. Fails when the kubeconfig
/// or the plugin policy cannot be read, or ask for something that cannot be done.
pub fn client(context: Option<&str>) -> Result<kube::Client, Error> {
    let (client, target) = Client::builder().for_context(context)?;
    Ok(wrap(client, &target))
}

/// A kube client on a client that was set up otherwise, with the target's namespace as its default.
///
/// Must be called inside a tokio runtime.
pub fn wrap(client: Client, target: &Target) -> kube::Client {
    kube::Client::new(Carrier::new(client), target.namespace.clone())
}

/// A [`Client`] as the service that kube wants, for stacks with layers of one's own: give it to
/// [`kube::client::ClientBuilder::new`].
#[derive(Debug, Clone)]
pub struct Carrier(Client);

impl Carrier {
    /// Carries kube's requests with this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

/// Always ready: an error here would end the kube client for good.
impl Service<Request<kube::client::Body>> for Carrier {
    type Response = Response<Incoming>;
    type Error = Error;
    type Future = Sending;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Sending {
        self.0.send(request.map(body::convert))
    }
}

/// The examples of the README, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
