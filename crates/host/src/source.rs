//! Where credentials come from: one source per identity, shared by all clients of the process.

use std::sync::Arc;

use keyward_protocol::exec::Response;

use crate::{Credential, Error, Plan, clock::SharedClock, observer::Observer};

/// Credentials of one identity, for as long as the process lives.
#[derive(Clone)]
pub struct Source {
    // private: Arc of anonymous | fixed | token file | cell of exec or oidc
}

/// The sources of a process: equal plans share one source (EX-14); unused ones are let go.
pub struct Sources {
    // private: weak entries by identity; clock; observer
}

impl Sources {
    /// The one most programs use.
    pub fn global() -> &'static Self {
        todo!()
    }

    /// A registry of its own, for tests and for programs that want isolation.
    pub fn new(_clock: SharedClock, _observer: Arc<dyn Observer>) -> Self {
        todo!()
    }

    /// The source for a plan. Runs nothing.
    pub fn open(&self, _plan: &Plan) -> Source {
        todo!()
    }
}

impl Source {
    /// The credential if one is there and valid: no lock, no allocation, no waiting.
    pub fn current(&self) -> Option<Arc<Credential>> {
        todo!()
    }

    /// The credential, running the plugin where needed.
    pub async fn credential(&self) -> Result<Arc<Credential>, Error> {
        todo!()
    }

    /// The same for a thread that may block.
    pub fn credential_blocking(&self) -> Result<Arc<Credential>, Error> {
        todo!()
    }

    /// A server answered 401 (or 403 where that is opted in) to this credential.
    pub fn refused(&self, _seen: &Credential, _response: Option<Arc<Response>>) {
        todo!()
    }
}
