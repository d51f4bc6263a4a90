//! The configuration of a server before it starts.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, RwLock},
    thread,
    time::Duration,
};

use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
};
use tokio::{runtime, sync::watch};

use super::{
    Api, ClientCertificates, Gate, Recorder, Server, Shared, SmallApi, Tls, accept,
    connection::Connections, fault::Faults, record::Counters, tls, users::Users,
};
use crate::{Error, authority::Authority};

/// How long the server's threads may take to end when it stops.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// A server that is about to start.
#[derive(Debug, Clone)]
pub struct Setup {
    address: SocketAddr,
    authority: Option<Arc<Authority>>,
    names: Vec<String>,
    certificates: ClientCertificates,
    tls: Tls,
    protocols: Vec<&'static str>,
    streams: u32,
    records: usize,
    workers: usize,
    forgetful: bool,
    provider: Arc<CryptoProvider>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            authority: None,
            names: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            certificates: ClientCertificates::default(),
            tls: Tls::default(),
            protocols: vec!["h2", "http/1.1"],
            streams: 250,
            records: 10_000,
            workers: 2,
            forgetful: false,
            provider: Arc::new(ring::default_provider()),
        }
    }
}

impl Setup {
    /// Where to listen; a free loopback port by default.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// The authority that signs the server's certificate and the clients'; a new one by default.
    #[must_use]
    pub fn authority(mut self, authority: Arc<Authority>) -> Self {
        self.authority = Some(authority);
        self
    }

    /// The names (and addresses) in the server's certificate, instead of the loopback's.
    #[must_use]
    pub fn names(mut self, names: &[&str]) -> Self {
        self.names = names.iter().map(ToString::to_string).collect();
        self
    }

    /// How client certificates are treated.
    #[must_use]
    pub fn certificates(mut self, certificates: ClientCertificates) -> Self {
        self.certificates = certificates;
        self
    }

    /// The versions of TLS to speak.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Resumes no TLS session: every connection needs a full handshake.
    #[must_use]
    pub fn forgetful(mut self) -> Self {
        self.forgetful = true;
        self
    }

    /// Speaks only HTTP/1.1.
    #[must_use]
    pub fn only_http1(mut self) -> Self {
        self.protocols = vec!["http/1.1"];
        self
    }

    /// How many requests an HTTP/2 connection carries at once; 250 by default.
    #[must_use]
    pub fn streams(mut self, streams: u32) -> Self {
        self.streams = streams;
        self
    }

    /// How many requests the recorder keeps: 10,000 by default; 0 for benchmarks.
    #[must_use]
    pub fn records(mut self, records: usize) -> Self {
        self.records = records;
        self
    }

    /// How many threads serve; two by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// A cryptography provider other than ring.
    #[must_use]
    pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = provider;
        self
    }

    /// Starts the server with a [`SmallApi`]; when this returns, it listens.
    pub fn start(self) -> Result<Server, Error> {
        self.start_with(|_, _| Ok(Arc::new(SmallApi)))
    }

    /// Starts the server with an API that gets its users and its authority; when this returns, it
    /// listens.
    pub fn start_with(
        self,
        api: impl FnOnce(&Arc<Users>, &Arc<Authority>) -> Result<Arc<dyn Api>, Error>,
    ) -> Result<Server, Error> {
        let authority = match &self.authority {
            Some(authority) => authority.clone(),
            None => Arc::new(Authority::new("keyward throw-away authority")?),
        };
        let listener = TcpListener::bind(self.address).map_err(Error::of("listen"))?;
        listener.set_nonblocking(true).map_err(Error::of("listen"))?;
        let address = listener.local_addr().map_err(Error::of("listen"))?;
        let users = Arc::new(Users::default());
        let shared = Arc::new(Shared {
            api: api(&users, &authority)?,
            users,
            faults: Faults::default(),
            recorder: Recorder::new(self.records),
            counters: Counters::new(),
            connections: Connections::default(),
            gate: watch::Sender::new(Gate::Open),
            tls: RwLock::new(Arc::new(self.settings(&authority)?)),
            checker: tls::checker(&authority, self.provider.clone())?,
            streams: self.streams,
        });
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(self.workers)
            .thread_name("api-server")
            .enable_all()
            .build()
            .map_err(Error::of("start the server's runtime"))?;
        let served = shared.clone();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(Error::of("listen"))?
        };
        let thread = thread::Builder::new()
            .name("api-server".to_owned())
            .spawn(move || {
                runtime.block_on(accept(served, listener));
                runtime.shutdown_timeout(LAST_BREATH);
            })
            .map_err(Error::of("start the server's thread"))?;
        Ok(Server { shared, address, setup: self, authority, thread: Some(thread) })
    }

    pub(super) fn settings(&self, authority: &Authority) -> Result<ServerConfig, Error> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let identity = authority.server(&names)?;
        let mut settings = tls::settings(
            self.provider.clone(),
            authority,
            &identity,
            self.certificates,
            self.tls,
            &self.protocols,
        )?;
        if self.forgetful {
            settings.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
            settings.send_tls13_tickets = 0;
        }
        Ok(settings)
    }
}
