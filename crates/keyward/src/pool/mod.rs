//! Connections to one server under one identity, on hyper's own `client::conn`.
//!
//! One attempt to connect at a time serves everybody who waits, ALPN decides the version, and an
//! HTTP/2 connection that carries as many streams as its peer allows gets a second one beside it,
//! so that open watches starve nobody. Dropping the pool drains it: idle connections close, the
//! others when their last body has been read.

mod failure;
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
use rustls::ClientConfig;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::AbortHandle,
    time::Instant,
};

pub(crate) use self::{failure::Failure, load::Place};
use self::{load::Load, wire::Wire};
use crate::{Body, Error, Incoming, connect::Connector};

/// How often a request that was never sent is given to another connection.
const ATTEMPTS: usize = 4;

/// Idle HTTP/1.1 connections that are kept; client-go keeps as many.
const IDLE: usize = 25;

/// How connections are kept. Times are client-go's.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// A connection nobody has used for this long is closed.
    pub(crate) idle: Duration,
    /// After this long a connection of a retired identity is cut; `None` never.
    pub(crate) drain: Option<Duration>,
    /// HTTP/2 pings while streams are open: after how long, and how long for the answer.
    pub(crate) ping: Option<(Duration, Duration)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(90),
            drain: None,
            ping: Some((Duration::from_secs(30), Duration::from_secs(15))),
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
    settings: Settings,
    state: Mutex<State>,
    /// A connection learnt its limit, or ended.
    changed: Notify,
}

#[derive(Default)]
struct State {
    many: Vec<Many>,
    idle: Vec<Single>,
    attempt: Option<Attempt>,
    /// The server chose HTTP/1.1 last time: each request in flight needs its own connection.
    single: bool,
    sweeping: bool,
    /// How to cut what is still open when the time for draining is over.
    cuts: Vec<(Handle, AbortHandle)>,
}

/// A connection that carries many streams.
struct Many {
    sender: http2::SendRequest<Body>,
    load: Arc<Load>,
}

/// A connection that carries one request at a time, and carries none now.
struct Single {
    sender: http1::SendRequest<Body>,
    since: Instant,
    /// Whether it has carried one before.
    used: bool,
}

/// An attempt to connect that somebody makes, and its end. Good news has no content: the
/// connection is in the pool.
type Attempt = watch::Receiver<Option<Result<(), Error>>>;

/// A connection, for one request.
enum Lease {
    Many { sender: http2::SendRequest<Body>, place: Place, used: bool },
    Single { sender: http1::SendRequest<Body>, used: bool },
}

/// What a look at the pool tells a caller to do.
enum Next {
    Send(Lease),
    AwaitAttempt(Attempt),
    AwaitChange,
    OpenSingle,
}

impl Pool {
    pub(crate) fn new(connector: Arc<Connector>, tls: ClientConfig, settings: Settings) -> Self {
        // A clone shares the session store, which is right: it is the same identity.
        let mut upgrade_tls = tls.clone();
        upgrade_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut both = tls;
        both.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self(Arc::new(Shared {
            connector,
            tls: Arc::new(both),
            upgrade_tls: Arc::new(upgrade_tls),
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
        if request.headers().contains_key(UPGRADE) {
            return self.upgrade(request).await;
        }
        let mut attempt = 1;
        loop {
            let sent = match self.lease().await? {
                Lease::Many { sender, place, used } => {
                    wire::send_h2(sender, request, place, used).await
                }
                Lease::Single { sender, used } => self.send_h1(sender, request, used).await,
            };
            match sent {
                Err(Failure { unsent: Some(back), .. }) if attempt < ATTEMPTS => request = *back,
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
    ) -> Result<Response<Incoming>, Failure> {
        let (response, mut sender) = wire::send_h1(sender, request, used).await?;
        // Ready again when the body has been read, by which time the pool may be gone.
        let pool = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            if sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                pool.keep(sender, true);
            }
        });
        Ok(response)
    }

    /// A connection of its own for a request that wants to leave HTTP.
    async fn upgrade(&self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        let shared = &self.0;
        let opening = Box::pin(async {
            let io = shared.connector.connect(&shared.upgrade_tls).await?;
            wire::open_h1(io, Arc::downgrade(shared)).await
        });
        let (sender, cut) = opening.await?;
        shared.note(cut);
        let (response, _sender) = wire::send_h1(sender, request, false).await?;
        Ok(response)
    }

    async fn lease(&self) -> Result<Lease, Error> {
        loop {
            let mut next = self.look();
            if matches!(next, Next::AwaitChange) {
                let changed = self.0.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                // Once more now that somebody listens: a change in between is not missed.
                next = self.look();
                if matches!(next, Next::AwaitChange) {
                    changed.await;
                }
            }
            match next {
                Next::Send(lease) => return Ok(lease),
                Next::AwaitChange => {}
                Next::AwaitAttempt(mut attempt) => {
                    if let Ok(done) = attempt.wait_for(Option::is_some).await {
                        done.clone().transpose()?;
                    } else {
                        // Its runtime went away in the middle: the next look starts another.
                        self.0.lock().attempt.take_if(|known| known.same_channel(&attempt));
                    }
                }
                Next::OpenSingle => {
                    if let Some(lease) = self.0.open().await? {
                        return Ok(lease);
                    }
                }
            }
        }
    }

    fn look(&self) -> Next {
        let mut state = self.0.lock();
        state.many.retain(|many| !many.sender.is_closed());
        let room = state.many.iter().find_map(|many| {
            let place = many.load.take()?;
            Some((many.sender.clone(), place, many.load.is_used()))
        });
        if let Some((sender, place, used)) = room {
            return Next::Send(Lease::Many { sender, place, used });
        }
        while let Some(Single { sender, since, used }) = state.idle.pop() {
            if sender.is_ready() && since.elapsed() < self.0.settings.idle {
                return Next::Send(Lease::Single { sender, used });
            }
        }
        if state.many.iter().any(|many| !many.load.is_told()) {
            return Next::AwaitChange;
        }
        if state.single {
            return Next::OpenSingle;
        }
        if let Some(attempt) = &state.attempt {
            return Next::AwaitAttempt(attempt.clone());
        }
        let (end, attempt) = watch::channel(None);
        state.attempt = Some(attempt.clone());
        let shared = self.0.clone();
        // On a task of its own, so that a caller who gives up does not take it from the others.
        tokio::spawn(async move {
            let opened = shared.open().await;
            if let Ok(Some(Lease::Single { sender, used })) = opened {
                shared.keep(sender, used);
                shared.lock().attempt = None;
                end.send_replace(Some(Ok(())));
            } else {
                shared.lock().attempt = None;
                end.send_replace(Some(opened.map(|_| ())));
            }
        });
        Next::AwaitAttempt(attempt)
    }
}

impl Shared {
    /// Connects. An HTTP/2 connection goes into the pool at once, an HTTP/1.1 one to the caller.
    async fn open(self: &Arc<Self>) -> Result<Option<Lease>, Error> {
        // Large, and needed for few requests: out of the way of the many.
        let opening = Box::pin(async {
            let io = self.connector.connect(&self.tls).await?;
            wire::open(io, Arc::downgrade(self), &self.settings).await
        });
        match opening.await? {
            Wire::Many { sender, load, cut } => {
                let mut state = self.lock();
                state.single = false;
                state.many.push(Many { sender, load });
                drop(state);
                self.note(cut);
                self.sweep();
                Ok(None)
            }
            Wire::Single { sender, cut } => {
                self.lock().single = true;
                self.note(cut);
                Ok(Some(Lease::Single { sender, used: false }))
            }
        }
    }

    fn keep(self: &Arc<Self>, sender: http1::SendRequest<Body>, used: bool) {
        let mut state = self.lock();
        if state.idle.len() < IDLE {
            state.idle.push(Single { sender, since: Instant::now(), used });
        }
        drop(state);
        self.sweep();
    }

    fn note(&self, cut: AbortHandle) {
        if self.settings.drain.is_some() {
            let mut state = self.lock();
            state.cuts.retain(|(_, cut)| !cut.is_finished());
            state.cuts.push((Handle::current(), cut));
        }
    }

    /// Closes what has been idle for too long, for as long as there is anything to close.
    fn sweep(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().sweeping, true) {
            return;
        }
        let sweeper = Sweeper(Arc::downgrade(self));
        let idle = self.settings.idle;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(idle / 2).await;
                let Some(shared) = sweeper.0.upgrade() else {
                    return;
                };
                let mut state = shared.lock();
                state
                    .idle
                    .retain(|single| single.since.elapsed() < idle && !single.sender.is_closed());
                state.many.retain(|many| {
                    !many.sender.is_closed() && many.load.idle().is_none_or(|since| since < idle)
                });
                if state.idle.is_empty() && state.many.is_empty() {
                    drop(state);
                    return;
                }
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that nobody sweeps any more, also when a runtime is shut down under the sweeper.
struct Sweeper(Weak<Shared>);

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.lock().sweeping = false;
        }
    }
}

/// The senders go with the state, and hyper drains each connection. What must not go on for ever
/// is cut after the time set for that.
impl Drop for Shared {
    fn drop(&mut self) {
        let Some(limit) = self.settings.drain else {
            return;
        };
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (runtime, cut) in state.cuts.drain(..) {
            if !cut.is_finished() {
                runtime.spawn(async move {
                    tokio::time::sleep(limit).await;
                    cut.abort();
                });
            }
        }
    }
}
