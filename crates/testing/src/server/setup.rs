//! How a server is to be, before it starts.

use std::{net::SocketAddr, sync::Arc};

use keyward_demo::server::{self, ClientCertificates, Tls};

use super::{Kubernetes, Logs, Ports, Server, Shared, Store, api::Signer, p521};
use crate::{Error, authority::Authority};

/// A server that is about to start.
#[derive(Debug, Clone)]
pub struct Setup {
    inner: server::Setup,
    commands: bool,
    kubelet: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let inner = server::Setup::default().provider(p521::provider());
        Self { inner, commands: false, kubelet: false }
    }
}

/// Passes settings on to the server that this one is built on.
macro_rules! pass_on {
    ($($name:ident($($argument:ident: $type:ty)?);)*) => {$(
        #[doc = concat!("See [`keyward_demo::server::Setup::", stringify!($name), "`].")]
        #[must_use]
        pub fn $name(mut self, $($argument: $type)?) -> Self {
            self.inner = self.inner.$name($($argument)?);
            self
        }
    )*};
}

impl Setup {
    pass_on! {
        listen(address: SocketAddr);
        authority(authority: Arc<Authority>);
        names(names: &[&str]);
        certificates(certificates: ClientCertificates);
        tls(tls: Tls);
        forgetful();
        only_http1();
        streams(streams: u32);
        records(records: usize);
        workers(workers: usize);
    }

    /// Runs the commands of `exec` and lets clients attach. The commands are real processes of this
    /// user on this machine, so this must be asked for.
    #[must_use]
    pub fn commands(mut self) -> Self {
        self.commands = true;
        self
    }

    /// Is the kubelet of a node, to which a real API server comes for logs, commands and ports of
    /// pods, and nothing else. Which pods there are is the API server's business: whatever it asks
    /// about runs here.
    #[must_use]
    pub fn kubelet(mut self) -> Self {
        self.kubelet = true;
        self
    }

    /// Starts the server; when this returns, it listens.
    pub fn start(self) -> Result<Server, Error> {
        let Self { inner, commands, kubelet } = self;
        let mut made = None;
        let inner = inner.start_with(|users, authority| {
            let shared = Arc::new(Shared {
                users: users.clone(),
                authority: authority.clone(),
                store: Store::new(),
                signer: Signer::new()?,
                logs: Logs::default(),
                ports: Ports::default(),
                commands,
                kubelet,
            });
            made = Some(shared.clone());
            Ok(Arc::new(Kubernetes(shared)))
        })?;
        let shared = made.ok_or_else(|| Error::of("start the server")("it has no API"))?;
        Ok(Server { inner, shared })
    }
}
