//! A [`kube::Client`] for a kubeconfig context, with credentials that renew themselves.
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
//! No plugin runs and no connection is opened before the first request. All clients of one identity
//! share one credential, and so one run of its plugin. A rejected credential is renewed and the request
//! retried; new connections show a new certificate while watches under the old one go on. Watches,
//! logs, exec, attach and port-forward work as with kube's own client.
//!
//! A crate of its own, because kube releases major versions often.

mod body;

use std::task::{Context, Poll};

use http::{Request, Response};
use keyward::{Client, Error, Incoming, client::Sending};
use keyward_host::Target;
use tower::Service;

/// A client for this context, or the current one, of the kubeconfig that kubectl would use.
///
/// Must be called inside a tokio runtime, like kube's own constructors. Fails when the kubeconfig
/// or the plugin policy cannot be read, or ask for something that cannot be done.
pub fn client(context: Option<&str>) -> Result<kube::Client, Error> {
    let (client, target) = Client::builder().for_context(context)?;
    Ok(wrap(client, &target))
}

/// A client for the cluster in the request that a plugin gets in `KUBERNETES_EXEC_INFO`, as
/// [`Client::from_exec_info`] makes one: for a plugin that calls the cluster it gets a credential for.
///
/// The client has no credential, and the default namespace is `default`. With a credential of the
/// plugin's own:
///
/// ```no_run
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use keyward_host::{Sources, Target, rules::Rules};
/// use keyward_process::surroundings::Surroundings;
///
/// let mut target = Target::from_exec_info(&Surroundings::process())?;
/// target.user.value.token_file = "/run/secrets/bootstrap".to_owned();
/// let client = keyward::Client::builder().open(&target, &Rules::default(), Sources::global())?;
/// let client = keyward_kube::wrap(client, &target);
/// # Ok(())
/// # }
/// ```
///
/// Must be called inside a tokio runtime. Fails if the request is missing, cannot be read, or names no
/// cluster, which needs `provideClusterInfo: true` in the kubeconfig, or one that is not HTTPS or
/// cannot be used.
pub fn from_exec_info() -> Result<kube::Client, Error> {
    let (client, target) = Client::builder().from_exec_info()?;
    Ok(wrap(client, &target))
}

/// A kube client on top of a configured client, with the target's namespace as its default.
///
/// Must be called inside a tokio runtime.
pub fn wrap(client: Client, target: &Target) -> kube::Client {
    kube::Client::new(Transport::new(client), target.namespace.clone())
}

/// A [`Client`] as the service that kube expects, to add layers of your own: pass it to
/// [`kube::client::ClientBuilder::new`].
#[derive(Debug, Clone)]
pub struct Transport(Client);

impl Transport {
    /// Sends kube's requests with this client.
    pub fn new(client: Client) -> Self {
        Self(client)
    }
}

/// Always ready: an error here would end the kube client for good.
impl Service<Request<kube::client::Body>> for Transport {
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

/// The examples of the READMEs, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
struct Readme;
