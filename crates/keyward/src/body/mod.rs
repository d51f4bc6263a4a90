mod replay;

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};

use self::replay::ReplayStream;
use crate::bearer::BoxError;

/// A body that may be sent a second time.
///
/// After a 401 a request is sent again only if [`Replay::replay`] returns a body.
pub trait Replay: Sized {
    /// A cheap copy that sends the same bytes, if possible.
    fn replay(&self) -> Option<Self>;

    /// Announces that this copy will be sent, and returns whether it still can be. Other readers of
    /// its source pause until this copy is read or dropped.
    fn claim(&mut self) -> bool {
        true
    }
}

impl Replay for Empty<Bytes> {
    fn replay(&self) -> Option<Self> {
        Some(Self::new())
    }
}

impl Replay for Full<Bytes> {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Replay for String {
    fn replay(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Replay for () {
    fn replay(&self) -> Option<Self> {
        Some(())
    }
}

/// The body of a request: nothing, bytes in memory, or a stream.
///
/// The first two can be sent again after a 401; a stream only if it is [`Body::replayable`] and no more
/// of it was sent than is buffered.
pub struct Body(Kind);

enum Kind {
    Buffered(Option<Bytes>),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
    Replayable(ReplayStream),
}

impl Body {
    /// No body.
    pub const fn empty() -> Self {
        Self(Kind::Buffered(None))
    }

    /// A streamed body, which can be sent only once.
    pub fn stream<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Stream(body.map_err(Into::into).boxed_unsync()))
    }

    /// A streamed body that can be sent again while no more than `limit` bytes of it have been sent.
    /// At most that many are buffered, and only until the response arrives.
    pub fn replayable<B>(body: B, limit: usize) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Replayable(ReplayStream::new(body.map_err(Into::into).boxed_unsync(), limit)))
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl Replay for Body {
    fn replay(&self) -> Option<Self> {
        match &self.0 {
            Kind::Buffered(bytes) => Some(Self(Kind::Buffered(bytes.clone()))),
            Kind::Stream(_) => None,
            Kind::Replayable(replay) => replay.copy().map(|replay| Self(Kind::Replayable(replay))),
        }
    }

    fn claim(&mut self) -> bool {
        match &mut self.0 {
            Kind::Replayable(replay) => replay.claim(),
            Kind::Buffered(_) | Kind::Stream(_) => true,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Buffered((!bytes.is_empty()).then_some(bytes)))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Buffered(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(body) => Pin::new(body).poll_frame(cx),
            Kind::Replayable(replay) => replay.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Buffered(bytes) => bytes.is_none(),
            Kind::Stream(body) => body.is_end_stream(),
            Kind::Replayable(replay) => replay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Buffered(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Stream(body) => body.size_hint(),
            Kind::Replayable(replay) => replay.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Buffered(None) => "Body(empty)",
            Kind::Buffered(Some(_)) => "Body(buffered)",
            Kind::Stream(_) => "Body(stream)",
            Kind::Replayable(_) => "Body(replayable)",
        })
    }
}
