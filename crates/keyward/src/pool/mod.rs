//! Connections to one server under one identity, on hyper's own `client::conn`.
//!
//! One attempt to connect at a time serves everybody who waits, ALPN decides the version, and an
//! HTTP/2 connection that carries as many streams as its peer allows gets a second one beside it,
//! so that open watches starve nobody. Dropping the pool drains it: idle connections close, the
//! others when their last body has been read.

mod dial;
mod failure;
mod keep;
mod load;
mod sniff;
#[cfg(test)]
mod tests;
mod wire;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::{Request, Response, header::UPGRADE};
use hyper::client::conn::{http1, http2};
use keyward_host::signer::Identity;
use rustls::ClientConfig;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::AbortHandle,
    time::Instant,
};

pub(crate) use self::{failure::Failure, load::Place};
use self::{load::Load, wire::Wire};
use crate::{
    Body, Error, Incoming,
    connect::{Connector, Verdict},
    error::Kind,
};

/// How often a request that was never sent is given to another connection.
const ATTEMPTS: usize = 4;

/// The same where each connection costs a signature.
const SIGNED_ATTEMPTS: usize = 2;

/// How connections are kept. Times are client-go's.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// A connection nobody has used for this long is closed.
    pub(crate) idle: Duration,
    /// After this long a connection of a retired identity is cut; `None` never.
    pub(crate) drain: Option<Duration>,
    /// HTTP/2 pings while streams are open: after how long, and how long for the answer.
    pub(crate) ping: Option<(Duration, Duration)>,
    /// After how long a signer is to blame for a connection that ended: a kube-apiserver waits 32 s
    /// for a handshake, and its clock starts before the signer's.
    pub(crate) patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(90),
            drain: None,
            ping: Some((Duration::from_secs(30), Duration::from_secs(15))),
            patience: Duration::from_secs(25),
        }
    }
}

/// The connections of one generation.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Shared>);

struct Shared {
    connector: Arc<Connector>,
    /// Offers HTTP/2 and HTTP/1.1.
    tls: Arc<ClientConfig>,
    /// Offers HTTP/1.1 only: over HTTP/2 hyper drops an `Upgrade` header without a word.
    upgrade_tls: Arc<ClientConfig>,
    /// Who signs the handshakes, where that is not the configuration itself.
    signer: Option<Arc<Identity>>,
    settings: Settings,
    state: Mutex<State>,
    /// A connection learnt its limit, or ended.
    changed: Notify,
}

#[derive(Default)]
struct State {
    many: Vec<Many>,
    idle: Vec<Single>,
    /// Gone with whoever made it.
    attempt: Option<Weak<End>>,
    /// The server chose HTTP/1.1 last time: each request in flight needs its own connection.
    single: bool,
    sweeping: bool,
    /// The last connection came to nothing because the signer was slower than the server's patience.
    late: bool,
    /// How to cut what is still open when the time for draining is over.
    cuts: Vec<(Handle, AbortHandle)>,
}

/// A connection that carries many streams.
struct Many {
    sender: http2::SendRequest<Body>,
    load: Arc<Load>,
    verdict: Arc<Verdict>,
}

/// A connection that carries one request at a time, and carries none now.
struct Single {
    sender: http1::SendRequest<Body>,
    since: Instant,
    /// Whether it has carried one before.
    used: bool,
    verdict: Arc<Verdict>,
}

/// How an attempt to connect ended. Good news has no content: the connection is in the pool.
type End = watch::Sender<Option<Result<(), Error>>>;

/// An attempt to connect that somebody makes.
type Attempt = watch::Receiver<Option<Result<(), Error>>>;

/// A connection, for one request.
enum Lease {
    Many { sender: http2::SendRequest<Body>, place: Place, used: bool, verdict: Arc<Verdict> },
    Single(Single),
}

/// What a look at the pool tells a caller to do.
enum Next {
    Send(Lease),
    AwaitAttempt(Attempt),
    AwaitChange,
    OpenSingle,
    /// A signature was in vain, and another one may be too.
    Broken(Single),
}

impl Pool {
    pub(crate) fn new(
        connector: Arc<Connector>,
        tls: ClientConfig,
        signer: Option<Arc<Identity>>,
        settings: Settings,
    ) -> Self {
        // A clone shares the session store, which is right: it is the same identity.
        let mut upgrade_tls = tls.clone();
        upgrade_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut both = tls;
        both.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self(Arc::new(Shared {
            connector,
            tls: Arc::new(both),
            upgrade_tls: Arc::new(upgrade_tls),
            signer,
            settings,
            state: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Sends a request with a whole URI on a connection of this pool.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Failure> {
        // What few requests need is put elsewhere: the future of every request has to be moved.
        if request.headers().contains_key(UPGRADE) {
            return Box::pin(self.upgrade(request)).await;
        }
        let attempts = if self.0.signer.is_some() { SIGNED_ATTEMPTS } else { ATTEMPTS };
        let mut attempt = 1;
        loop {
            let (sent, verdict) = match self.lease().await? {
                Lease::Many { sender, place, used, verdict } => {
                    (wire::send_h2(sender, request, place, used).await, verdict)
                }
                Lease::Single(Single { sender, used, verdict, .. }) => {
                    (Box::pin(self.send_h1(sender, request, used, &verdict)).await, verdict)
                }
            };
            match self.0.judge(sent, &verdict) {
                Err(Failure { unsent: Some(back), .. }) if attempt < attempts => request = *back,
                other => return other,
            }
            attempt += 1;
        }
    }

    async fn send_h1(
        &self,
        sender: http1::SendRequest<Body>,
        request: Request<Body>,
        used: bool,
        verdict: &Arc<Verdict>,
    ) -> Result<Response<Incoming>, Failure> {
        let (response, mut sender) = wire::send_h1(sender, request, used).await?;
        // Ready again when the body has been read, by which time the pool may be gone.
        let pool = Arc::downgrade(&self.0);
        let verdict = Arc::clone(verdict);
        tokio::spawn(async move {
            if sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                pool.keep(Single { sender, since: Instant::now(), used: true, verdict });
            }
        });
        Ok(response)
    }

    /// A connection of its own for a request that wants to leave HTTP.
    async fn upgrade(&self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        let (wire, verdict) = self.0.dial(&self.0.upgrade_tls).await?;
        let Wire::Single { sender, cut } = wire else {
            let message = "the server speaks HTTP/2 to a client that offered none";
            return Err(Error::new(Kind::Http, message).into());
        };
        self.0.note(cut);
        let sent = wire::send_h1(sender, request, false).await;
        self.0.judge(sent.map(|(response, _sender)| response), &verdict)
    }

    async fn lease(&self) -> Result<Lease, Error> {
        match self.look() {
            Next::Send(lease) => Ok(lease),
            first => Box::pin(self.wait(first)).await,
        }
    }

    /// Waits for a connection after a first look that found none.
    async fn wait(&self, mut first: Next) -> Result<Lease, Error> {
        loop {
            if let Next::Send(lease) = first {
                return Ok(lease);
            }
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // Once more now that somebody listens: a change in between is not missed. The first is
            // kept until then: an attempt that nobody waits for is given up.
            let next = if let Next::Broken(_) = first { first } else { self.look() };
            match next {
                Next::Send(lease) => return Ok(lease),
                Next::AwaitChange => changed.await,
                Next::AwaitAttempt(mut attempt) => loop {
                    tokio::select! {
                        done = attempt.wait_for(Option::is_some) => {
                            // If its runtime went away in the middle, the next look starts another.
                            if let Ok(done) = done {
                                done.clone().transpose()?;
                            }
                            break;
                        }
                        // Somebody gave a connection back; or it was the attempt's own that ended,
                        // and then what came of it must not be missed.
                        () = changed.as_mut() => {
                            if !self.0.lock().idle.is_empty() {
                                break;
                            }
                            changed.set(self.0.changed.notified());
                        }
                    }
                },
                Next::Broken(mut single) => {
                    // By its end it is known why.
                    if single.sender.ready().await.is_ok() {
                        return Ok(Lease::Single(single));
                    }
                    let broken: Result<(), _> = Err(wire::ended_at_once().into());
                    if let Err(failure) = self.0.judge(broken, &single.verdict)
                        && !failure.again
                    {
                        return Err(failure.error);
                    }
                }
                Next::OpenSingle => {
                    if let Some(lease) = self.0.open().await? {
                        return Ok(lease);
                    }
                }
            }
            first = self.look();
        }
    }

    fn look(&self) -> Next {
        let mut state = self.0.lock();
        state.many.retain(|many| !many.sender.is_closed());
        let room = state.many.iter().find_map(|many| {
            let place = many.load.take()?;
            Some((many, place))
        });
        if let Some((many, place)) = room {
            let (sender, verdict) = (many.sender.clone(), Arc::clone(&many.verdict));
            let used = many.load.is_used();
            return Next::Send(Lease::Many { sender, place, used, verdict });
        }
        while let Some(single) = state.idle.pop() {
            if single.sender.is_ready() && single.since.elapsed() < self.0.settings.idle {
                return Next::Send(Lease::Single(single));
            }
            if !single.used && single.verdict.is_signed() {
                return Next::Broken(single);
            }
        }
        if state.many.iter().any(|many| !many.load.is_told()) {
            return Next::AwaitChange;
        }
        // Where each costs a signature they are opened one by one: until the next is there, those
        // there are come back.
        if state.single && self.0.signer.is_none() {
            return Next::OpenSingle;
        }
        if let Some(end) = state.attempt.as_ref().and_then(Weak::upgrade) {
            return Next::AwaitAttempt(end.subscribe());
        }
        let (end, attempt) = watch::channel(None);
        let end = Arc::new(end);
        state.attempt = Some(Arc::downgrade(&end));
        // On a task of its own, so that a caller who gives up does not take it from the others.
        tokio::spawn(self.0.clone().attempt(end));
        Next::AwaitAttempt(attempt)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
