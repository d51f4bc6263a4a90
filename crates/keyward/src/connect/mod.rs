//! Opens a connection to a server: name resolution, proxy, TLS.

mod diagnosis;
mod dialer;
mod environment;
mod proxy;
mod read_ahead;
mod socks;
mod tcp;
mod trace;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use keyward_process::surroundings::Surroundings;
use rustls::{ClientConfig, InvalidMessage};
use tokio::{net::TcpStream, time::Instant};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;

use self::read_ahead::ReadAhead;
pub use self::trace::{Secured, Trace, Tracer};
pub(crate) use self::{
    diagnosis::{Cause, Diagnosis, Observed},
    dialer::Dialer,
    proxy::Proxy,
};
use crate::{
    Error, Origin,
    error::Kind,
    tls::{self, Trust},
};

/// The shortest pause between two checks of how long a signer has worked.
const TICK: Duration = Duration::from_millis(50);

/// A socket to the server, or one inside the TLS of a proxy.
pub(crate) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// What HTTP is spoken on.
pub(crate) type Io = Either<Stream, TlsStream<ReadAhead<Stream>>>;

/// Connects to one server. Knows nothing of credentials: the caller brings the TLS configuration.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub(crate) origin: Origin,
    proxy: Option<Proxy>,
    pub(crate) trust: Trust,
    /// How long a server has for an answer below HTTP.
    pub(crate) limit: Duration,
    /// The server may have issued a session ticket, with which the next connection needs no signature.
    ticket: Arc<AtomicBool>,
    tracer: Tracer,
}

impl Connector {
    /// Connects as a kubeconfig and an environment configure it. `proxy_url` wins over the environment,
    /// as in client-go; the environment is read now and not again.
    pub(crate) fn new(
        origin: Origin,
        trust: Trust,
        proxy_url: &str,
        surroundings: &Surroundings,
        limit: Duration,
    ) -> Result<Self, Error> {
        trust.look_where(surroundings);
        let proxy = if proxy_url.is_empty() {
            environment::proxy_for(&origin, |name| {
                surroundings.var(name).and_then(|value| value.into_string().ok())
            })?
        } else {
            Some(Proxy::parse(proxy_url)?)
        };
        Ok(Self { origin, proxy, trust, limit, ticket: Arc::default(), tracer: Tracer::default() })
    }

    /// Records how connections come about.
    pub(crate) fn traced(mut self, tracer: &Tracer) -> Self {
        tracer.begin(self.proxy.as_ref());
        self.tracer = tracer.clone();
        self
    }

    /// Connects within the time limit. `tls` is the generation's configuration with the protocols it
    /// offers. The time that an external signer takes does not count.
    pub(crate) async fn connect(
        &self,
        tls: &Arc<ClientConfig>,
        diagnosis: &Diagnosis,
    ) -> Result<Io, Error> {
        let Some(signing) = &diagnosis.signing else {
            return self.open_in_time(tls, diagnosis).await;
        };
        if !(signing.may_resume() && self.ticket.load(Ordering::Relaxed)) {
            signing.unlock().await?;
        }
        let mut opened = self.open_in_time(tls, diagnosis).await;
        if signing.handshake.was_early() {
            // There was no ticket, or the server refused it. Servers do not wait for a person, so that
            // connection was given up.
            signing.unlock().await?;
            opened = self.open_in_time(tls, diagnosis).await;
        }
        self.ticket.store(opened.is_ok(), Ordering::Relaxed);
        opened
    }

    async fn open_in_time(
        &self,
        tls: &Arc<ClientConfig>,
        diagnosis: &Diagnosis,
    ) -> Result<Io, Error> {
        let signing = diagnosis.signing.as_ref();
        let through = AtomicBool::new(false);
        let opening = self.open(tls, diagnosis, &through);
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

    /// Who did not answer: the server, or the proxy until it has let us `through`.
    fn silent(&self, through: bool) -> String {
        match &self.proxy {
            Some(proxy) if !through => proxy.describe(self.origin.bare_host(), self.origin.port()),
            _ => format!("`{}`", self.origin),
        }
    }

    async fn open(
        &self,
        tls: &Arc<ClientConfig>,
        diagnosis: &Diagnosis,
        through: &AtomicBool,
    ) -> Result<Io, Error> {
        let (host, port) = (self.origin.bare_host(), self.origin.port());
        let tracer = &self.tracer;
        tracer.begin(self.proxy.as_ref());
        let stream = match &self.proxy {
            None => Either::Left(tcp::dial(host, port, tracer).await.map_err(|error| {
                let message = format!("`{host}` port {port} could not be reached");
                Error::because(Kind::Connect, message, error)
            })?),
            Some(proxy) => {
                let stream = proxy.tunnel(host, port, &self.trust, tracer).await?;
                tracer.tunnelled();
                stream
            }
        };
        through.store(true, Ordering::Relaxed);
        if !self.origin.is_https() {
            return Ok(Either::Left(stream));
        }
        self.trust.prepare(false).await;
        let name = self.trust.name_for(&self.origin)?;
        let handshake = TlsConnector::from(tls.clone()).connect(name, ReadAhead::new(stream));
        let shaken = match &diagnosis.signing {
            None => handshake.await,
            Some(signing) => signing
                .handshake
                .drive(handshake)
                .await
                .unwrap_or_else(|| Err(diagnosis::no_thread())),
        };
        match &shaken {
            Ok(stream) => tracer.secured(stream.get_ref().1),
            Err(error) => tracer.refused(error),
        }
        shaken.map(Either::Right).map_err(|error| {
            diagnosis.note(&error);
            match tls::failure(&error) {
                Some(cause) => Error::unsigned(&self.origin, cause.clone()),
                None => no_tls(&self.origin.to_string(), error),
            }
        })
    }
}

/// The error for a failed TLS handshake, with a hint where the server speaks no TLS.
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
    match tls::rejection(&error) {
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
