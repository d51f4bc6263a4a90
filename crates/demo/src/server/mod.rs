//! A TLS API server that really demands and checks credentials.
//!
//! The server runs on its own thread and runtime, so that a test on any runtime, or on none, can use it. A
//! [`Server`] is its handle: what it accepts ([`Users`]), its faults ([`Faults`]), and what it saw
//! ([`Recorder`], [`Counts`]). The crate's own page has an example.

pub mod answer;
mod body;
mod certificate;
mod connection;
mod fault;
mod record;
pub mod route;
mod serve;
mod setup;
mod tls;
mod users;

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
    thread::JoinHandle,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{ServerConfig, server::danger::ClientCertVerifier};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

pub use self::{
    body::Body,
    connection::Connection,
    fault::{Deed, Fault, Faults},
    record::{Counts, Record, Recorder},
    route::{Api, Caller, ConfigMaps, SmallApi},
    setup::Setup,
    tls::{ClientCertificates, Tls, settings as tls_settings},
    users::{Proof, User, Users},
};
use self::{
    connection::{Connections, Signal},
    record::Counters,
};
use crate::{Error, authority::Authority};

/// The handle of a running server. Dropping it stops the server at once.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    setup: Setup,
    authority: Arc<Authority>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to configure a server.
    pub fn setup() -> Setup {
        Setup::default()
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's address as a URL, without a path.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The authority of the server's certificate and of the client certificates it accepts.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// A kubeconfig (JSON, which is valid YAML) with one context `test` for this server and the
    /// user `test`, which is copied as given: `{"token": …}`, `{"exec": …}` and so on.
    pub fn kubeconfig(&self, user: &Value) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "clusters": [{ "name": "test", "cluster": {
                "server": self.url(),
                "certificate-authority-data": STANDARD.encode(self.authority.pem()),
            } }],
            "users": [{ "name": "test", "user": user }],
        })
        .to_string()
    }

    /// The credentials that the server accepts.
    pub fn users(&self) -> &Arc<Users> {
        &self.shared.users
    }

    /// The server's faults.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// The requests that the server saw.
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// The server's counters.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Cuts every open connection.
    pub fn cut_connections(&self) {
        self.shared.connections.tell_all(Signal::Cut);
    }

    /// Asks every client to close its connection: GOAWAY without an error in HTTP/2, `Connection:
    /// close` in HTTP/1.1. Open requests are finished.
    pub fn go_away(&self) {
        self.shared.connections.tell_all(Signal::Drain);
    }

    /// Stops accepting connections. The listener stays open: clients wait in its queue.
    pub fn pause(&self) {
        self.shared.gate.send_replace(Gate::Shut);
    }

    /// Accepts connections again.
    pub fn resume(&self) {
        self.shared.gate.send_replace(Gate::Open);
    }

    /// Restarts as after a crash: connections are cut, TLS sessions are forgotten, the listener
    /// stays open. Between [`Server::pause`] and [`Server::resume`] the server looks down.
    pub fn restart(&self) -> Result<(), Error> {
        let settings = self.setup.settings(&self.authority)?;
        *self.shared.tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.cut_connections();
        Ok(())
    }

    /// Stops gracefully: accepts no new connections and lets open requests finish, at most for
    /// `limit`. Returns whether all finished.
    pub fn drain(self, limit: Duration) -> bool {
        self.shared.gate.send_replace(Gate::Closed);
        self.go_away();
        self.shared.connections.wait_until_none(limit)
    }

    /// Stops at once.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.gate.send_replace(Gate::Over);
        self.cut_connections();
        if let Some(thread) = self.thread.take() {
            // The thread itself reported a panic already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Whether connections are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// Not now: clients wait in the queue.
    Shut,
    /// Never again: clients are refused, but open connections continue.
    Closed,
    /// The server has ended.
    Over,
}

/// State shared by the handle and the server's thread.
pub(crate) struct Shared {
    api: Arc<dyn Api>,
    users: Arc<Users>,
    faults: Faults,
    recorder: Recorder,
    counters: Counters,
    connections: Connections,
    gate: watch::Sender<Gate>,
    tls: RwLock<Arc<ServerConfig>>,
    checker: Arc<dyn ClientCertVerifier>,
    streams: u32,
}

impl Shared {
    fn tls(&self) -> Arc<ServerConfig> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Accepts connections until the server ends.
async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let mut gate = shared.gate.subscribe();
    let mut listener = Some(listener);
    loop {
        let state = *gate.borrow_and_update();
        let open = match state {
            Gate::Over => return,
            Gate::Closed => {
                listener = None;
                None
            }
            Gate::Shut => None,
            Gate::Open => listener.as_ref(),
        };
        let accepting = async {
            match open {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            news = gate.changed() => if news.is_err() { return },
            accepted = accepting => match accepted {
                Ok((stream, _)) => {
                    tokio::spawn(connection::run(shared.clone(), stream));
                }
                // Out of descriptors, or the client has left already: the next one may work.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            },
        }
    }
}
