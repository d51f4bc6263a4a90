//! Connections to one server under one identity, on hyper's own `client::conn`.
//!
//! One attempt to connect at a time serves everybody who waits, ALPN decides the version, and an
//! HTTP/2 connection that carries as many streams as its peer allows gets a second one beside it,
//! so that open watches starve nobody. Dropping the pool drains it: idle connections close, the
//! others when their last body has been read.

mod connection;
mod dial;
mod failure;
mod idle;
mod load;
mod settings_frame;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

use http::{Request, Response, header::UPGRADE};
use hyper::client::conn::{http1, http2};
use keyward_process::lock;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::AbortHandle,
    time::Instant,
};

use self::{connection::Connection, load::Load};
pub(crate) use self::{failure::Failure, load::StreamSlot};
use crate::{
    Body, Error, Incoming,
    connect::{Diagnosis, Dialer},
    error::Kind,
};

/// How long connections live: unused, after their identity was replaced, and when the peer is silent. The
/// times are client-go's.
#[derive(Debug, Clone)]
pub(crate) struct Lifetimes {
    /// A connection that was idle for this long is closed.
    pub(crate) idle: Duration,
    /// A connection of a replaced identity is cut after this long; `None` never.
    pub(crate) drain: Option<Duration>,
    /// HTTP/2 pings while streams are open: after how long, and how long for the answer.
    pub(crate) ping: Option<(Duration, Duration)>,
}

impl Default for Lifetimes {
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
    dialer: Dialer,
    lifetimes: Lifetimes,
    state: Mutex<State>,
    /// Notified when a connection learnt its stream limit, was put back, or ended.
    changed: Notify,
}

#[derive(Default)]
struct State {
    http2: Vec<Http2>,
    idle: Vec<Http1>,
    /// The attempt to connect that is under way, if any.
    attempt: Option<Weak<End>>,
    /// The server chose HTTP/1.1 last time: each request in flight needs its own connection.
    http1_only: bool,
    sweeping: bool,
    /// Aborts what is still open when the time for draining is over.
    cuts: Vec<(Handle, AbortHandle)>,
}

/// A connection that carries many streams.
struct Http2 {
    sender: http2::SendRequest<Body>,
    load: Arc<Load>,
    diagnosis: Arc<Diagnosis>,
}

/// A connection that carries one request at a time, and carries none now.
struct Http1 {
    sender: http1::SendRequest<Body>,
    since: Instant,
    /// Whether it has carried one before.
    used: bool,
    diagnosis: Arc<Diagnosis>,
}

/// Announces how an attempt to connect ended. Success has no content: the connection is in the pool.
type End = watch::Sender<Option<Result<(), Error>>>;

/// Hears how an attempt to connect ended.
type Attempt = watch::Receiver<Option<Result<(), Error>>>;

/// A connection, for one request.
enum Lease {
    Http2 {
        sender: http2::SendRequest<Body>,
        slot: StreamSlot,
        used: bool,
        diagnosis: Arc<Diagnosis>,
    },
    Http1(Http1),
}

/// What a look at the pool tells a caller to do.
enum Next {
    Send(Lease),
    AwaitAttempt(Attempt),
    AwaitChange,
    OpenHttp1,
    /// A signed connection broke unused, and the next one may too.
    Broken(Http1),
}

impl Pool {
    pub(crate) fn new(dialer: Dialer, lifetimes: Lifetimes) -> Self {
        let (state, changed) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { dialer, lifetimes, state, changed }))
    }

    /// Sends a request with a whole URI on a connection of this pool.
    pub(crate) async fn send(
        &self,
        mut request: Box<Request<Body>>,
    ) -> Result<Response<Incoming>, Failure> {
        // Boxed, because few requests need it and the future of every request is moved.
        if request.headers().contains_key(UPGRADE) {
            return Box::pin(self.upgrade(request)).await;
        }
        let mut attempt = 1;
        loop {
            let (sent, diagnosis) = match self.lease().await? {
                Lease::Http2 { sender, slot, used, diagnosis } => {
                    (connection::send_h2(sender, request, slot, used).await, diagnosis)
                }
                Lease::Http1(Http1 { sender, used, diagnosis, .. }) => {
                    (Box::pin(self.send_h1(sender, request, used, &diagnosis)).await, diagnosis)
                }
            };
            match self.0.explain(sent, &diagnosis) {
                Err(Failure { unsent: Some(back), .. }) if attempt < self.0.dialer.attempts() => {
                    request = back;
                }
                other => return other,
            }
            attempt += 1;
        }
    }

    async fn send_h1(
        &self,
        sender: http1::SendRequest<Body>,
        request: Box<Request<Body>>,
        used: bool,
        diagnosis: &Arc<Diagnosis>,
    ) -> Result<Response<Incoming>, Failure> {
        let (response, mut sender) = connection::send_h1(sender, request, used).await?;
        // Ready again when the body has been read, by which time the pool may be gone.
        let pool = Arc::downgrade(&self.0);
        let diagnosis = Arc::clone(diagnosis);
        tokio::spawn(async move {
            if sender.ready().await.is_ok()
                && let Some(pool) = pool.upgrade()
            {
                pool.put_back(Http1 { sender, since: Instant::now(), used: true, diagnosis });
            }
        });
        Ok(response)
    }

    /// A connection of its own for a request that wants to leave HTTP.
    async fn upgrade(&self, request: Box<Request<Body>>) -> Result<Response<Incoming>, Failure> {
        let (connection, diagnosis) = self.0.dial(true).await?;
        let Connection::Http1 { sender, cut } = connection else {
            let message = "the server speaks HTTP/2 to a client that offered none";
            return Err(Error::new(Kind::Http, message).into());
        };
        self.0.track(cut);
        let sent = connection::send_h1(sender, request, false).await;
        self.0.explain(sent.map(|(response, _sender)| response), &diagnosis)
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
            // Look again now that changes are heard, so that none in between is missed. The first
            // look is kept until then: an attempt that nobody waits for is given up.
            let next = if let Next::Broken(_) = first { first } else { self.look() };
            match next {
                Next::Send(lease) => return Ok(lease),
                Next::AwaitChange => changed.await,
                Next::AwaitAttempt(mut attempt) => loop {
                    tokio::select! {
                        done = attempt.wait_for(Option::is_some) => {
                            // If its runtime was shut down, the next look starts another.
                            if let Ok(done) = done {
                                done.clone().transpose()?;
                            }
                            break;
                        }
                        // A connection was put back; or the attempt's own ended, and then its
                        // result must not be missed.
                        () = changed.as_mut() => {
                            if !self.0.lock().idle.is_empty() {
                                break;
                            }
                            changed.set(self.0.changed.notified());
                        }
                    }
                },
                Next::Broken(mut http1) => {
                    // The reason is known once it has ended.
                    if http1.sender.ready().await.is_ok() {
                        return Ok(Lease::Http1(http1));
                    }
                    let broken: Result<(), _> = Err(connection::ended_at_once().into());
                    if let Err(failure) = self.0.explain(broken, &http1.diagnosis)
                        && !failure.retryable
                    {
                        return Err(failure.error);
                    }
                }
                Next::OpenHttp1 => {
                    if let Some(lease) = self.0.open().await? {
                        return Ok(lease);
                    }
                }
            }
            first = self.look();
        }
    }

    /// Takes a connection that has room, or decides how to get one.
    fn look(&self) -> Next {
        let mut state = self.0.lock();
        state.http2.retain(|http2| !http2.sender.is_closed());
        let room = state.http2.iter().find_map(|http2| {
            let slot = http2.load.take()?;
            Some((http2, slot))
        });
        if let Some((http2, slot)) = room {
            let (sender, diagnosis) = (http2.sender.clone(), Arc::clone(&http2.diagnosis));
            let used = http2.load.is_used();
            return Next::Send(Lease::Http2 { sender, slot, used, diagnosis });
        }
        while let Some(http1) = state.idle.pop() {
            if http1.sender.is_ready() && http1.since.elapsed() < self.0.lifetimes.idle {
                return Next::Send(Lease::Http1(http1));
            }
            if !http1.used && http1.diagnosis.is_signed() {
                return Next::Broken(http1);
            }
        }
        if state.http2.iter().any(|http2| !http2.load.is_known()) {
            return Next::AwaitChange;
        }
        // Where each costs a signature, connections are opened one by one: meanwhile others may be
        // put back.
        if state.http1_only && !self.0.dialer.is_signed() {
            return Next::OpenHttp1;
        }
        if let Some(end) = state.attempt.as_ref().and_then(Weak::upgrade) {
            return Next::AwaitAttempt(end.subscribe());
        }
        let (end, attempt) = watch::channel(None);
        let end = Arc::new(end);
        state.attempt = Some(Arc::downgrade(&end));
        // On its own task, so that a caller who gives up does not cancel it for the others.
        tokio::spawn(self.0.clone().attempt(end));
        Next::AwaitAttempt(attempt)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
