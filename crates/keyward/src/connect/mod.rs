//! From an origin to a stream of bytes: name, address, proxy, TLS.

mod environment;
mod proxy;
mod socks;
mod tcp;
mod verdict;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyward_process::surroundings::Surroundings;
use rustls::{ClientConfig, InvalidMessage};
use tokio::{io::BufReader, net::TcpStream, time::Instant};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;

pub(crate) use self::{
    proxy::Proxy,
    verdict::{Listen, Verdict, Why},
};
use crate::{
    Error, Origin,
    error::Kind,
    identity::{self, Trust},
};

/// The shortest pause between two looks at how long a signer has been at work.
const TICK: Duration = Duration::from_millis(50);

/// What reaches the server: a socket, or one inside the TLS of a proxy.
pub(crate) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// What HTTP is spoken on. rustls reads 4 KiB at a time; a long response would be a system call for
/// each.
pub(crate) type Io = Either<Stream, TlsStream<BufReader<Stream>>>;

/// What is read from a socket at once: a record of TLS. More would be felt by every new connection,
/// which has to find the memory.
const READ: usize = 16 * 1024;

/// The way to one server. Knows nothing of credentials: the caller brings the TLS configuration.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    origin: Origin,
    proxy: Option<Proxy>,
    trust: Trust,
    limit: Duration,
    /// The server may have left us a ticket, by which the next connection needs no signature.
    ticket: Arc<AtomicBool>,
}

impl Connector {
    /// The way a kubeconfig and an environment say. `proxy_url` wins over the environment, as in
    /// client-go; the environment is read now and not again.
    pub(crate) fn new(
        origin: Origin,
        trust: Trust,
        proxy_url: &str,
        surroundings: &Surroundings,
        limit: Duration,
    ) -> Result<Self, Error> {
        let proxy = if proxy_url.is_empty() {
            environment::proxy_for(&origin, |name| {
                surroundings.var(name).and_then(|value| value.into_string().ok())
            })?
        } else {
            Some(Proxy::parse(proxy_url)?)
        };
        Ok(Self { origin, proxy, trust, limit, ticket: Arc::default() })
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// How long a server has for an answer of its own, beyond those of HTTP.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// A connection, within the time there is for one. `tls` is the generation's configuration,
    /// with the protocols it offers. An external signer has its own time: while it works, ours
    /// stands still.
    pub(crate) async fn connect(
        &self,
        tls: &Arc<ClientConfig>,
        verdict: &Verdict,
    ) -> Result<Io, Error> {
        let Some(signing) = verdict.signing() else {
            return self.open_in_time(tls, verdict).await;
        };
        if !(signing.may_resume() && self.ticket.load(Ordering::Relaxed)) {
            signing.unlock().await?;
        }
        let mut opened = self.open_in_time(tls, verdict).await;
        if signing.handshake.was_early() {
            // There was no ticket, or the server did not take it. It does not wait for a person, so
            // that connection was given up.
            signing.unlock().await?;
            opened = self.open_in_time(tls, verdict).await;
        }
        self.ticket.store(opened.is_ok(), Ordering::Relaxed);
        opened
    }

    async fn open_in_time(&self, tls: &Arc<ClientConfig>, verdict: &Verdict) -> Result<Io, Error> {
        let signing = verdict.signing();
        let through = AtomicBool::new(false);
        let opening = self.open(tls, verdict, &through);
        tokio::pin!(opening);
        let started = Instant::now();
        loop {
            let spent = signing.map_or(Duration::ZERO, |signing| signing.handshake.spent());
            let left = (self.limit + spent).saturating_sub(started.elapsed());
            if left.is_zero() {
                let silent = self.silent(through.load(Ordering::Relaxed));
                let message = format!("{silent} did not answer within {:?}", self.limit);
                return Err(Error::new(Kind::Connect, message));
            }
            if let Ok(done) = tokio::time::timeout(left.max(TICK), &mut opening).await {
                return done;
            }
        }
    }

    /// Whom we wait for: the server, or the proxy before it until it has let us `through`.
    fn silent(&self, through: bool) -> String {
        match &self.proxy {
            Some(proxy) if !through => proxy.way(self.origin.bare_host(), self.origin.port()),
            _ => format!("`{}`", self.origin),
        }
    }

    async fn open(
        &self,
        tls: &Arc<ClientConfig>,
        verdict: &Verdict,
        through: &AtomicBool,
    ) -> Result<Io, Error> {
        let (host, port) = (self.origin.bare_host(), self.origin.port());
        let stream = match &self.proxy {
            None => Either::Left(tcp::dial(host, port).await.map_err(|error| {
                let message = format!("`{host}` port {port} could not be reached");
                Error::because(Kind::Connect, message, error)
            })?),
            Some(proxy) => proxy.tunnel(host, port, &self.trust).await?,
        };
        through.store(true, Ordering::Relaxed);
        if !self.origin.is_https() {
            return Ok(Either::Left(stream));
        }
        self.trust.prepare(false).await;
        let name = self.trust.name_for(&self.origin)?;
        let handshake =
            TlsConnector::from(tls.clone()).connect(name, BufReader::with_capacity(READ, stream));
        let shaken = match verdict.signing() {
            None => handshake.await,
            Some(signing) => signing
                .handshake
                .drive(handshake)
                .await
                .unwrap_or_else(|| Err(verdict::no_thread())),
        };
        shaken.map(Either::Right).map_err(|error| {
            verdict.note(&error);
            match identity::failure(&error) {
                Some(cause) => Error::unsigned(&self.origin, cause.clone()),
                None => no_tls(&self.origin.to_string(), error),
            }
        })
    }
}

/// Why a handshake failed, as plainly as it can be said.
fn no_tls(with: &str, error: std::io::Error) -> Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) = inner {
        let plain = with.replacen("https://", "http://", 1);
        let message = format!(
            "`{with}` does not answer in TLS: if it serves plain HTTP, its URL is `{plain}`"
        );
        return Error::because(Kind::Connect, message, error);
    }
    let message = format!("the TLS handshake with `{with}` failed");
    match identity::rejection(&error) {
        Some(rejected) => Error::because(Kind::Connect, message, rejected),
        None => Error::because(Kind::Connect, message, error),
    }
}

/// Whether the peer chose HTTP/2.
pub(crate) fn speaks_h2(io: &Io) -> bool {
    match io {
        Either::Left(_) => false,
        Either::Right(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
    }
}
