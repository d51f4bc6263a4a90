use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::pool::Place;

type BoxError = Box<dyn StdError + Send + Sync>;

/// The body of a response, as it comes.
///
/// On an HTTP/2 connection it holds a stream until it has been read or is dropped.
pub struct Incoming {
    inner: hyper::body::Incoming,
    place: Option<Place>,
}

impl Incoming {
    pub(crate) fn new(inner: hyper::body::Incoming, place: Option<Place>) -> Self {
        let place = place.filter(|_| !inner.is_end_stream());
        Self { inner, place }
    }

    /// All of it.
    pub async fn bytes(self) -> Result<Bytes, BoxError> {
        Ok(self.collect().await?.to_bytes())
    }

    /// All of it, as text.
    pub async fn text(self) -> Result<String, BoxError> {
        Ok(String::from_utf8(self.bytes().await?.into())?)
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.inner.is_end_stream() {
            self.place = None;
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}
