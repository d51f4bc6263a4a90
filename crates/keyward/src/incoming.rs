use std::{
    error::Error as StdError,
    fmt,
    io::Write,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
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
    packed: Option<Unpacker>,
}

/// Undoes gzip. `None` when all of it has been undone.
struct Unpacker(Option<MultiGzDecoder<Vec<u8>>>);

impl Incoming {
    pub(crate) fn new(inner: hyper::body::Incoming, place: Option<Place>) -> Self {
        let place = place.filter(|_| !inner.is_end_stream());
        Self { inner, place, packed: None }
    }

    /// The same body, unpacked on the way. Nothing is packed as nothing.
    pub(crate) fn unpacked(self) -> Self {
        if self.inner.is_end_stream() {
            return self;
        }
        Self { packed: Some(Unpacker(Some(MultiGzDecoder::new(Vec::new())))), ..self }
    }

    /// All of it.
    pub async fn bytes(self) -> Result<Bytes, BoxError> {
        Ok(self.collect().await?.to_bytes())
    }

    /// All of it, as text.
    pub async fn text(self) -> Result<String, BoxError> {
        Ok(String::from_utf8(self.bytes().await?.into())?)
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let ended = self.inner.is_end_stream();
        // hyper takes a reset without an error for the end, of which half may be missing.
        let cut = frame.is_none() && self.place.is_some() && !ended;
        if ended || !matches!(frame, Some(Ok(_))) {
            self.place = None;
        }
        Poll::Ready(match frame {
            None if cut => Some(Err("the server took its response back halfway".into())),
            frame => frame.map(|frame| frame.map_err(Into::into)),
        })
    }
}

impl Unpacker {
    fn unpack(&mut self, bytes: &[u8]) -> Result<Bytes, BoxError> {
        let Some(decoder) = &mut self.0 else {
            return Err("there is more after the end of the packed response".into());
        };
        decoder.write_all(bytes)?;
        decoder.flush()?;
        Ok(std::mem::take(decoder.get_mut()).into())
    }

    fn finish(&mut self) -> Result<Bytes, BoxError> {
        match self.0.take() {
            Some(decoder) => Ok(decoder.finish()?.into()),
            None => Ok(Bytes::new()),
        }
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            let frame = ready!(this.poll_raw(cx)).transpose()?;
            let Some(packed) = &mut this.packed else {
                return Poll::Ready(frame.map(Ok));
            };
            let unpacked = match frame.map(Frame::into_data) {
                Some(Ok(bytes)) => packed.unpack(&bytes)?,
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                None if packed.0.is_none() => return Poll::Ready(None),
                None => packed.finish()?,
            };
            if !unpacked.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(unpacked))));
            }
            if this.packed.as_ref().is_some_and(|packed| packed.0.is_none()) {
                return Poll::Ready(None);
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.packed {
            None => self.inner.is_end_stream(),
            Some(packed) => packed.0.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.packed {
            None => self.inner.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_was_packed_is_unpacked_piece_by_piece() {
        let text = b"a watch event\n".repeat(1000);
        let mut unpacker = Unpacker(Some(MultiGzDecoder::new(Vec::new())));
        let mut all = Vec::new();
        for piece in packed(&text).chunks(7) {
            all.extend(unpacker.unpack(piece).unwrap());
        }
        all.extend(unpacker.finish().unwrap());
        assert_eq!(all, text);
    }

    #[test]
    fn a_packed_response_that_was_cut_is_an_error() {
        let whole = packed(b"some text that is long enough");
        let mut unpacker = Unpacker(Some(MultiGzDecoder::new(Vec::new())));
        unpacker.unpack(&whole[..whole.len() / 2]).unwrap();
        assert!(unpacker.finish().is_err());
    }
}
