//! What clients get: a response of the server as it comes, or words of our own.

use std::{
    error::Error as StdError,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use keyward::Incoming;

use super::meter::Flight;

/// The body of a response to a client.
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one")]
pub(crate) enum Answer {
    /// Ours; `None` when it has been sent.
    Own(Option<Bytes>),
    /// The server's. The flight ends when it has been sent or is dropped.
    Server { body: Incoming, _flight: Flight },
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
