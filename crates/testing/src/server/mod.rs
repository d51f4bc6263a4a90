//! The API server of the tests: the server of `keyward demo` with discovery, objects that are kept, changed
//! and watched, and pods that run commands.
//!
//! ```
//! use keyward_testing::server::{Server, User};
//!
//! let server = Server::setup().start()?;
//! server.users().token("a-token", User::new("anna").group("dev"));
//! assert!(server.url().starts_with("https://127.0.0.1:"));
//! # Ok::<(), keyward_testing::Error>(())
//! ```

mod api;
mod kubelet;
mod p521;
mod pod;
mod setup;
mod upgrade;

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use http::{Method, Request};
use hyper::body::Incoming;
use keyward_demo::server::{Api, Body, Caller, Connection, answer, route};
pub use keyward_demo::server::{
    ClientCertificates, Counts, Deed, Fault, Faults, Proof, Record, Recorder, Tls, User, Users,
};

pub(crate) use self::p521::provider;
pub use self::{
    api::{Refusal, Store},
    pod::{Logs, Ports},
    setup::Setup,
};
use crate::authority::Authority;

/// The handle of a running server. Dropping it stops the server at once.
#[derive(Debug)]
pub struct Server {
    inner: keyward_demo::server::Server,
    shared: Arc<Shared>,
}

impl Server {
    /// Begins a server.
    pub fn setup() -> Setup {
        Setup::default()
    }

    /// The objects it keeps.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// What its pods write.
    pub fn logs(&self) -> &Logs {
        &self.shared.logs
    }

    /// What stands for the ports of its pods.
    pub fn ports(&self) -> &Ports {
        &self.shared.ports
    }

    /// Ends gracefully, see [`keyward_demo::server::Server::drain`].
    pub fn drain(self, limit: Duration) -> bool {
        self.inner.drain(limit)
    }

    /// Ends at once.
    pub fn stop(self) {
        drop(self);
    }
}

/// Everything else is that server's.
impl Deref for Server {
    type Target = keyward_demo::server::Server;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

/// What the API works with.
pub(crate) struct Shared {
    users: Arc<Users>,
    authority: Arc<Authority>,
    store: Store,
    signer: api::Signer,
    logs: Logs,
    ports: Ports,
    commands: bool,
    kubelet: bool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The whole API: what every server answers, and Kubernetes' objects.
struct Kubernetes(Arc<Shared>);

impl Api for Kubernetes {
    fn answer(&self, caller: Caller, request: Request<Incoming>) -> route::Answering<'_> {
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            if self.0.kubelet {
                return kubelet::answer(&self.0, caller, &parts, request);
            }
            let request = match route::common(&caller, request) {
                Ok(answer) => return answer,
                Err(request) => request,
            };
            let reviews = ["apis", "authorization.k8s.io", "v1", "subjectaccessreviews"];
            if parts == reviews && request.method() == Method::POST {
                return api::review(&self.0, request).await;
            }
            if let Some(answer) = api::describe(&parts, wants_protobuf(&request)) {
                return answer;
            }
            match api::target(&parts) {
                Some(target) => api::answer(&self.0, caller, target, request).await,
                None => answer::not_found(),
            }
        })
    }
}

/// Whether the schema is wanted in protocol buffers.
fn wants_protobuf(request: &Request<Incoming>) -> bool {
    request
        .headers()
        .get(http::header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("proto-openapi"))
}
