//! Bodies. To clients: a response of the server, streamed, or a message of the proxy. From clients:
//! the body of a request, and how much of it was read.

use std::{
    error::Error as StdError,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use keyward::Incoming;

use crate::{
    refusal::{BROKEN_BODY, Refusal, TRAILERS},
    request_stats::OpenRequest,
};

/// The body of a response to a client.
pub(crate) enum Answer {
    /// The proxy's own; `None` once it has been sent.
    Own(Option<Bytes>),
    /// The server's. The request counts as open until this is sent or dropped.
    Server { body: Incoming, _open: OpenRequest },
}

impl Answer {
    pub(crate) const fn empty() -> Self {
        Self::Own(None)
    }
}

impl From<Bytes> for Answer {
    fn from(bytes: Bytes) -> Self {
        Self::Own((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Server { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(bytes) => bytes.is_none(),
            Self::Server { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Server { body, .. } => body.size_hint(),
        }
    }
}

/// How much of a request's body was read; `None` if it has none.
pub(crate) struct Progress(Option<Arc<AtomicU8>>);

const UNDER_WAY: u8 = 0;
const OVER: u8 = 1;
const BROKEN: u8 = 2;
const TRAILED: u8 = 3;

impl Progress {
    pub(crate) fn of(body: &impl Body) -> Self {
        Self((!body.is_end_stream()).then(|| Arc::new(AtomicU8::new(UNDER_WAY))))
    }

    /// Whether the whole body, and nothing else, was read.
    pub(crate) fn is_over(&self) -> bool {
        self.read() == OVER
    }

    /// The fault of the body, if it has one.
    pub(crate) fn fault(&self) -> Option<Refusal> {
        match self.read() {
            BROKEN => Some(BROKEN_BODY),
            TRAILED => Some(TRAILERS),
            _ => None,
        }
    }

    fn read(&self) -> u8 {
        self.0.as_ref().map_or(OVER, |state| state.load(Ordering::Acquire))
    }
}

/// The body of a request, without trailers: they would reach the server unchecked. Also, over
/// HTTP/1.1, hyper takes what follows `0\r\n\n`, up to the next empty line, for trailers: a whole
/// request could hide in them.
pub(crate) struct Upload {
    body: hyper::body::Incoming,
    state: Arc<AtomicU8>,
    http2: bool,
}

impl Upload {
    /// `http2` says whether the request came over HTTP/2.
    pub(crate) fn new(body: hyper::body::Incoming, progress: &Progress, http2: bool) -> Self {
        Self { body, state: progress.0.clone().unwrap_or_default(), http2 }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let state = match &frame {
            Some(Err(_)) => BROKEN,
            Some(Ok(frame)) if frame.is_trailers() => TRAILED,
            Some(Ok(_)) if self.body.is_end_stream() => OVER,
            Some(Ok(_)) => UNDER_WAY,
            // hyper takes a client's reset without an error for the end, although half may be
            // missing.
            None if self.http2 && !self.body.is_end_stream() => BROKEN,
            None => OVER,
        };
        self.state.store(state, Ordering::Release);
        Poll::Ready(match frame {
            Some(_) if state == TRAILED => Some(Err(TRAILERS.message.as_ref().into())),
            None if state == BROKEN => Some(Err(BROKEN_BODY.message.as_ref().into())),
            frame => frame.map(|frame| frame.map_err(Into::into)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
