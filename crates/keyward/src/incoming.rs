use std::{
    fmt,
    io::Write,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::{bearer::BoxError, pool::StreamSlot};

/// The body of a response, streamed.
///
/// On an HTTP/2 connection it occupies a stream until it was read to the end or is dropped.
pub struct Incoming {
    inner: hyper::body::Incoming,
    slot: Option<StreamSlot>,
    /// Boxed, because few responses need it and every response is moved.
    gzip: Option<Box<Decompressor>>,
}

/// Decompresses gzip. `None` after the end.
struct Decompressor(Option<MultiGzDecoder<Vec<u8>>>);

impl Incoming {
    pub(crate) fn new(inner: hyper::body::Incoming, slot: Option<StreamSlot>) -> Self {
        let slot = slot.filter(|_| !inner.is_end_stream());
        Self { inner, slot, gzip: None }
    }

    /// Decompresses the body as it is read. An empty body stays empty.
    pub(crate) fn decompressed(self) -> Self {
        if self.inner.is_end_stream() {
            return self;
        }
        let gzip = Box::new(Decompressor(Some(MultiGzDecoder::new(Vec::new()))));
        Self { gzip: Some(gzip), ..self }
    }

    /// Reads the whole body.
    pub async fn bytes(self) -> Result<Bytes, BoxError> {
        Ok(self.collect().await?.to_bytes())
    }

    /// Reads the whole body as text.
    pub async fn text(self) -> Result<String, BoxError> {
        Ok(String::from_utf8(self.bytes().await?.into())?)
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let ended = self.inner.is_end_stream();
        // hyper takes a reset without an error for the end of a body that may be cut off.
        let cut = frame.is_none() && self.slot.is_some() && !ended;
        if ended || !matches!(frame, Some(Ok(_))) {
            self.slot = None;
        }
        Poll::Ready(match frame {
            None if cut => Some(Err("the server cancelled its response halfway".into())),
            frame => frame.map(|frame| frame.map_err(Into::into)),
        })
    }
}

impl Decompressor {
    fn decompress(&mut self, bytes: &[u8]) -> Result<Bytes, BoxError> {
        let Some(decoder) = &mut self.0 else {
            return Err("the compressed response goes on after its end".into());
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
            let Some(gzip) = &mut this.gzip else {
                return Poll::Ready(frame.map(Ok));
            };
            let decompressed = match frame.map(Frame::into_data) {
                Some(Ok(bytes)) => gzip.decompress(&bytes)?,
                Some(Err(other)) => return Poll::Ready(Some(Ok(other))),
                None if gzip.0.is_none() => return Poll::Ready(None),
                None => gzip.finish()?,
            };
            if !decompressed.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(decompressed))));
            }
            if this.gzip.as_ref().is_some_and(|gzip| gzip.0.is_none()) {
                return Poll::Ready(None);
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.gzip {
            None => self.inner.is_end_stream(),
            Some(gzip) => gzip.0.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.gzip {
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

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_decompressed_piece_by_piece() {
        let text = b"a watch event\n".repeat(1000);
        let mut decompressor = Decompressor(Some(MultiGzDecoder::new(Vec::new())));
        let mut all = Vec::new();
        for piece in gzip(&text).chunks(7) {
            all.extend(decompressor.decompress(piece).unwrap());
        }
        all.extend(decompressor.finish().unwrap());
        assert_eq!(all, text);
    }

    #[test]
    fn a_truncated_compressed_response_is_an_error() {
        let whole = gzip(b"some text that is long enough");
        let mut decompressor = Decompressor(Some(MultiGzDecoder::new(Vec::new())));
        decompressor.decompress(&whole[..whole.len() / 2]).unwrap();
        assert!(decompressor.finish().is_err());
    }
}
