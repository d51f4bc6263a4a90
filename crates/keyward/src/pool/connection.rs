//! One connection: its handshake, the task that drives it, and a request on it.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use http::{
    HeaderValue, Method, Request, Response, Uri, Version,
    header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
};
use http_body::Body as _;
use hyper::{
    client::conn::{http1, http2},
    rt::Executor,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
    time::timeout,
};

use super::{
    Failure, Shared, StreamSlot,
    load::Load,
    settings_frame::{Allowed, settings_reader},
};
use crate::{
    Body, Error, Incoming,
    connect::{Diagnosis, Io, Observed, speaks_h2},
    error::Kind,
};

/// With a window of the usual size three paused readers stall all others.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// How much of an unread response the server may send, which is the memory that each such stream takes. It
/// carries 20 MB/s to a reader 50 ms away.
const STREAM_WINDOW: u32 = 1 << 20;
const HEADERS: u32 = 256 * 1024;
/// The read buffer of an HTTP/1.1 connection, which must also hold a response's head.
const READ_BUFFER: usize = 64 * 1024;

/// Interim responses before the real one. Servers send one or two; one that never stops would keep the
/// caller waiting and us busy.
const INTERIM: u32 = 100;

/// hyper's limit of streams until it has read the peer's first SETTINGS frame. No peer's limit is as
/// large: one has 32 bits, and none at all is `usize::MAX`. Never reached: until then the pool gives out
/// one slot.
const LIMIT_BEFORE_SETTINGS: usize = usize::MAX - 1;

/// A connection after its handshake.
pub(super) enum Connection {
    Http2 { sender: http2::SendRequest<Body>, load: Arc<Load>, cut: AbortHandle },
    Http1 { sender: http1::SendRequest<Body>, cut: AbortHandle },
}

pub(super) async fn open(
    io: Io,
    pool: Weak<Shared>,
    shared: &Shared,
    diagnosis: &Arc<Diagnosis>,
) -> Result<Connection, Error> {
    if speaks_h2(&io) {
        Box::pin(open_h2(io, pool, shared, diagnosis)).await
    } else {
        open_h1(io, pool, diagnosis).await
    }
}

async fn open_h1(
    io: Io,
    pool: Weak<Shared>,
    diagnosis: &Arc<Diagnosis>,
) -> Result<Connection, Error> {
    let io = TokioIo::new(Observed::new(io, diagnosis));
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BUFFER);
    let (mut sender, connection) = builder.handshake(io).await.map_err(no_handshake)?;
    let driver = tokio::spawn(async move {
        ended(connection.with_upgrades().await, &pool);
    });
    // A sender that is not ready yet looks like one whose connection is gone.
    sender.ready().await.map_err(no_handshake)?;
    Ok(Connection::Http1 { sender, cut: driver.abort_handle() })
}

async fn open_h2(
    io: Io,
    pool: Weak<Shared>,
    shared: &Shared,
    diagnosis: &Arc<Diagnosis>,
) -> Result<Connection, Error> {
    let load = Load::new();
    let (tell, told) = oneshot::channel();
    let learn = {
        let (load, pool) = (load.clone(), pool.clone());
        move |allowed: Allowed| {
            load.allow(allowed.map_or(usize::MAX, |streams| streams as usize));
            if let Some(pool) = pool.upgrade() {
                pool.changed.notify_waiters();
            }
            let _ = tell.send(());
        }
    };
    let spawn = Spawn::default();
    let mut builder = http2::Builder::new(spawn.clone());
    builder
        .timer(TokioTimer::new())
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_max_send_streams(LIMIT_BEFORE_SETTINGS)
        .max_header_list_size(HEADERS);
    if let Some((interval, answer)) = shared.lifetimes.ping {
        builder.keep_alive_interval(interval).keep_alive_timeout(answer);
    }
    // Boxed: hyper spawns a task of this type for every request, and its size would include the stream.
    let io = TokioIo::new(Box::new(settings_reader(Observed::new(io, diagnosis), learn)));
    let (sender, mut connection) = builder.handshake(io).await.map_err(no_handshake)?;
    let watched = load.clone();
    let driver = tokio::spawn(async move {
        let end = poll_fn(|cx| {
            let end = Pin::new(&mut connection).poll(cx);
            // The peer may change the limit in a later frame.
            match connection.current_max_send_streams() {
                LIMIT_BEFORE_SETTINGS => {}
                streams if watched.is_known() => watched.allow(streams),
                _ => {}
            }
            end
        })
        .await;
        ended(end, &pool);
    });
    if diagnosis.is_signed() {
        accepted(told, shared.dialer.limit()).await?;
    }
    Ok(Connection::Http2 {
        sender,
        load,
        cut: spawn.0.get().cloned().unwrap_or_else(|| driver.abort_handle()),
    })
}

/// Waits for the server's first frame. A connection that cost a signature, and perhaps a person's touch,
/// is not used before it is known to be good: all who wait for it would ask for another one.
async fn accepted(told: oneshot::Receiver<()>, limit: Duration) -> Result<(), Error> {
    match timeout(limit, told).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(ended_at_once()),
        Err(_) => {
            Err(Error::new(Kind::Connect, format!("the server sent nothing within {limit:?}")))
        }
    }
}

/// The error for a signed connection that failed.
pub(super) fn ended_at_once() -> Error {
    Error::new(Kind::Lost, "the server ended the connection at once")
}

/// Sends at once. The future only waits: the future of every request is moved.
pub(super) fn send_h2(
    mut sender: http2::SendRequest<Body>,
    mut request: Box<Request<Body>>,
    slot: StreamSlot,
    used: bool,
) -> impl Future<Output = Result<Response<Incoming>, Failure>> {
    // The URI's authority replaces it.
    request.headers_mut().remove(HOST);
    request.headers_mut().remove(TRANSFER_ENCODING);
    *request.version_mut() = Version::HTTP_2;
    let method = request.method().clone();
    let sent = sender.try_send_request(*request);
    async move {
        match sent.await {
            Ok(response) => Ok(response.map(|body| Incoming::new(body, Some(slot)))),
            Err(error) => Err(failed(error, &method, used)),
        }
    }
}

/// Returns the sender beside the response: it can be used again once the body was read.
pub(super) async fn send_h1(
    mut sender: http1::SendRequest<Body>,
    mut request: Box<Request<Body>>,
    used: bool,
) -> Result<(Response<Incoming>, http1::SendRequest<Body>), Failure> {
    let whole = request.uri().clone();
    if !request.headers().contains_key(HOST)
        && let Some(authority) = whole.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers_mut().insert(HOST, host);
    }
    if let Some(path) = whole.path_and_query() {
        *request.uri_mut() = Uri::from(path.clone());
    }
    *request.version_mut() = Version::HTTP_11;
    // hyper drops the body of a GET of unknown length, unless this header announces it.
    if !request.body().is_end_stream()
        && request.body().size_hint().exact().is_none()
        && !request.headers().contains_key(CONTENT_LENGTH)
    {
        request.headers_mut().insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    let method = request.method().clone();
    let flood = Flood::watch(&mut request);
    let sent = tokio::select! {
        biased;
        sent = sender.try_send_request(*request) => sent,
        // Whoever stops waiting ends the connection.
        () = flood.too_many.notified() => {
            let message = format!("the server sent more than {INTERIM} interim responses");
            return Err(Error::new(Kind::Http, message).into());
        }
    };
    match sent {
        Ok(response) => Ok((response.map(|body| Incoming::new(body, None)), sender)),
        Err(error) => {
            let mut failure = failed(error, &method, used);
            // Another connection needs the whole URI.
            if let Some(request) = &mut failure.unsent {
                *request.uri_mut() = whole;
            }
            Err(failure)
        }
    }
}

/// Notices a server that sends interim responses (1xx) without end.
#[derive(Default)]
struct Flood {
    seen: AtomicU32,
    too_many: Notify,
}

impl Flood {
    fn watch(request: &mut Request<Body>) -> Arc<Self> {
        let flood = Arc::new(Self::default());
        let watched = Arc::clone(&flood);
        hyper::ext::on_informational(request, move |_| {
            if watched.seen.fetch_add(1, Ordering::Relaxed) == INTERIM {
                watched.too_many.notify_one();
            }
        });
        flood
    }
}

fn failed(
    mut error: hyper::client::conn::TrySendError<Request<Body>>,
    method: &Method,
    used: bool,
) -> Failure {
    match error.take_message() {
        Some(request) => Failure::unsent(error.into_error(), request),
        None => Failure::lost(error.into_error(), method, used),
    }
}

fn no_handshake(error: hyper::Error) -> Error {
    Error::because(Kind::Connect, "the HTTP handshake failed", error)
}

fn ended(end: hyper::Result<()>, pool: &Weak<Shared>) {
    if let Err(error) = end {
        tracing::debug!(%error, "a connection ended");
    }
    if let Some(pool) = pool.upgrade() {
        pool.changed.notify_waiters();
    }
}

/// Runs hyper's tasks, and remembers the first, which owns the socket.
#[derive(Clone, Default)]
struct Spawn(Arc<OnceLock<AbortHandle>>);

impl<F> Executor<F> for Spawn
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        // Boxed: hyper spawns one for every request, of a type with room for a whole connection, and
        // tokio would move it ten times.
        let task = tokio::spawn(Box::pin(future));
        if self.0.get().is_none() {
            let _ = self.0.set(task.abort_handle());
        }
    }
}
