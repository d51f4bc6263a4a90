mod tape;

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};

use self::tape::Tape;

type BoxError = Box<dyn StdError + Send + Sync>;

/// A body that can perhaps be sent a second time.
///
/// After a 401 a request is sent again only if this gives a body; a cheap copy, or `None`.
pub trait Replay: Sized {
    /// A copy that sends the same bytes, if there can be one.
    fn replay(&self) -> Option<Self>;

    /// Says that this copy is wanted, and whether it can still be sent. What reads the same source
    /// rests from then on, until this copy is read or dropped.
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
/// The first two can be sent again after a 401. A stream can if it is [`Body::replayable`] and not
/// too much of it was sent.
pub struct Body(Kind);

enum Kind {
    Buffered(Option<Bytes>),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
    Tape(Tape),
}

impl Body {
    /// No body.
    pub const fn empty() -> Self {
        Self(Kind::Buffered(None))
    }

    /// A body that comes as it goes, and can be sent once only.
    pub fn stream<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Stream(body.map_err(Into::into).boxed_unsync()))
    }

    /// A body that comes as it goes, and can be sent again while no more than `room` bytes of it
    /// have been sent. So many are kept in memory, and only until the response is there.
    pub fn replayable<B>(body: B, room: usize) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Tape(Tape::new(body.map_err(Into::into).boxed_unsync(), room)))
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
            Kind::Tape(tape) => tape.copy().map(|tape| Self(Kind::Tape(tape))),
        }
    }

    fn claim(&mut self) -> bool {
        match &mut self.0 {
            Kind::Tape(tape) => tape.claim(),
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
            Kind::Tape(tape) => tape.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Buffered(bytes) => bytes.is_none(),
            Kind::Stream(body) => body.is_end_stream(),
            Kind::Tape(tape) => tape.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Buffered(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Stream(body) => body.size_hint(),
            Kind::Tape(tape) => tape.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Buffered(None) => "Body(empty)",
            Kind::Buffered(Some(_)) => "Body(buffered)",
            Kind::Stream(_) => "Body(stream)",
            Kind::Tape(_) => "Body(replayable)",
        })
    }
}
