//! Local proxies: HTTP `CONNECT`, in the clear or over TLS, and SOCKS5. With or without a password.
//!
//! ```
//! use keyward_testing::proxy::{Kind, Proxy};
//!
//! let proxy = Proxy::setup(Kind::Socks5).password("anna", "secret").start()?;
//! assert!(proxy.url().starts_with("socks5://127.0.0.1:"));
//! assert_eq!(proxy.connections(), 0);
//! # Ok::<(), keyward_testing::Error>(())
//! ```

mod connect;
mod socks;

use std::{
    collections::HashMap,
    fmt, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime,
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Error,
    authority::Authority,
    server::{ClientCertificates, Tls, provider},
};

/// What a proxy speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// HTTP `CONNECT`, in the clear.
    Http,
    /// HTTP `CONNECT` over TLS.
    Https,
    /// SOCKS5, names looked up by the client or by the proxy.
    Socks5,
}

/// A proxy that is about to start.
pub struct Setup {
    kind: Kind,
    password: Option<(String, String)>,
    names: HashMap<String, SocketAddr>,
    authority: Option<Arc<Authority>>,
}

impl Setup {
    /// Lets only this user in.
    #[must_use]
    pub fn password(mut self, user: &str, password: &str) -> Self {
        self.password = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Knows this name, which nobody else needs to; with any port it leads to `address`.
    #[must_use]
    pub fn name(mut self, name: &str, address: SocketAddr) -> Self {
        self.names.insert(name.to_owned(), address);
        self
    }

    /// The authority that signs the certificate of an [`Kind::Https`] proxy. A new one when nothing
    /// is said.
    #[must_use]
    pub fn authority(mut self, authority: Arc<Authority>) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Starts the proxy on a free port of the loopback address.
    pub fn start(self) -> Result<Proxy, Error> {
        let authority = match self.authority {
            Some(authority) => authority,
            None => Arc::new(Authority::new("keyward throw-away authority")?),
        };
        let acceptor = match self.kind {
            Kind::Https => Some(acceptor(&authority)?),
            Kind::Http | Kind::Socks5 => None,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::of("listen"))?;
        listener.set_nonblocking(true).map_err(Error::of("listen"))?;
        let address = listener.local_addr().map_err(Error::of("listen"))?;
        let shared = Arc::new(Shared {
            kind: self.kind,
            password: self.password,
            names: self.names,
            acceptor,
            connections: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            targets: Mutex::default(),
        });
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .map_err(Error::of("start the proxy's runtime"))?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(Error::of("listen"))?
        };
        let (over, told) = watch::channel(false);
        let served = shared.clone();
        let thread = thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || {
                runtime.block_on(accept(served, listener, told));
                runtime.shutdown_background();
            })
            .map_err(Error::of("start the proxy's thread"))?;
        Ok(Proxy { shared, address, authority, over, thread: Some(thread) })
    }
}

/// The handle of a running proxy. Dropping it stops the proxy and cuts its connections.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    authority: Arc<Authority>,
    over: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Begins a proxy.
    pub fn setup(kind: Kind) -> Setup {
        Setup { kind, password: None, names: HashMap::new(), authority: None }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The proxy's address as a URL, without a user.
    pub fn url(&self) -> String {
        self.url_of("")
    }

    /// The proxy's address as a URL with the user and password in it, as given (not escaped).
    pub fn url_with(&self, user: &str, password: &str) -> String {
        self.url_of(&format!("{user}:{password}@"))
    }

    /// Who signed its certificate.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// How many connections it made for its clients.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many clients it turned away for their password.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Where its clients wanted to go, as they said it (`HOST:PORT`), in order.
    pub fn targets(&self) -> Vec<String> {
        self.shared.targets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn url_of(&self, user: &str) -> String {
        let scheme = match self.shared.kind {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Socks5 => "socks5",
        };
        format!("{scheme}://{user}{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic on that thread was already told by the thread itself.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

struct Shared {
    kind: Kind,
    password: Option<(String, String)>,
    names: HashMap<String, SocketAddr>,
    acceptor: Option<TlsAcceptor>,
    connections: AtomicU64,
    refused: AtomicU64,
    targets: Mutex<Vec<String>>,
}

impl Shared {
    /// Whether this user may come in; `None` when it did not say who it is.
    fn allows(&self, given: Option<(&str, &str)>) -> bool {
        let allowed = match &self.password {
            None => true,
            Some((user, password)) => given == Some((user.as_str(), password.as_str())),
        };
        if !allowed {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        allowed
    }

    /// Connects to where a client wants to go.
    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let target =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(target.clone());
        let stream = match self.names.get(host) {
            Some(address) => TcpStream::connect(address).await?,
            None => TcpStream::connect(target).await?,
        };
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(stream)
    }
}

async fn accept(
    shared: Arc<Shared>,
    listener: tokio::net::TcpListener,
    mut told: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = told.wait_for(|over| *over) => return,
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    let shared = shared.clone();
                    // A client that misbehaves or leaves is its own business.
                    tokio::spawn(async move { serve(&shared, stream).await });
                }
            }
        }
    }
}

async fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match (shared.kind, &shared.acceptor) {
        (Kind::Socks5, _) => socks::serve(shared, stream).await,
        (_, Some(acceptor)) => connect::serve(shared, acceptor.accept(stream).await?).await,
        (_, None) => connect::serve(shared, stream).await,
    }
}

/// Carries bytes both ways until both sides have ended.
async fn carry<T>(mut client: T, mut server: TcpStream) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor, Error> {
    let identity = authority.server(&["localhost", "127.0.0.1", "::1"])?;
    let certificates = ClientCertificates::Ignored;
    let settings = keyward_demo::server::tls_settings(
        provider(),
        authority,
        &identity,
        certificates,
        Tls::Both,
        &["http/1.1"],
    )?;
    Ok(TlsAcceptor::from(Arc::new(settings)))
}
