//! A stream whose beginning is buffered for as long as it may have to be sent again.
//!
//! ```text
//! source ──► buffer (the first bytes) ──► the current reader
//!                                    └──► a copy: from the beginning, then on from the source
//! ```
//!
//! A server that refuses a request has often not read all of its body. A copy replays the buffer and
//! continues with the source, so that a body of any length can be sent again as long as no more of it
//! was sent than is buffered.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use keyward_process::lock;

use crate::bearer::BoxError;

/// A reader of a shared source.
pub(super) struct ReplayStream {
    shared: Arc<Mutex<Shared>>,
    /// The number of this reader; `None` for a copy that nobody reads yet.
    reader: Option<u64>,
    /// The current reader pauses until this copy is read or dropped.
    claimed: bool,
    /// How many buffered pieces, and bytes, this reader has returned.
    pieces: usize,
    given: u64,
}

struct Shared {
    source: UnsyncBoxBody<Bytes, BoxError>,
    hint: SizeHint,
    buffer: Vec<Bytes>,
    limit: usize,
    /// More was read than the buffer holds.
    overflowed: bool,
    ended: bool,
    /// The number of the current reader.
    reader: u64,
    /// Copies that nobody reads yet, and those of them that pause the reader.
    copies: usize,
    claims: usize,
    paused: Option<Waker>,
}

impl ReplayStream {
    pub(super) fn new(source: UnsyncBoxBody<Bytes, BoxError>, limit: usize) -> Self {
        let shared = Shared {
            hint: source.size_hint(),
            source,
            buffer: Vec::new(),
            limit,
            overflowed: false,
            ended: false,
            reader: 0,
            copies: 0,
            claims: 0,
            paused: None,
        };
        let shared = Arc::new(Mutex::new(shared));
        Self { shared, reader: Some(0), claimed: false, pieces: 0, given: 0 }
    }

    pub(super) fn copy(&self) -> Option<Self> {
        let mut shared = self.lock();
        if shared.overflowed {
            return None;
        }
        shared.copies += 1;
        Some(Self {
            shared: self.shared.clone(),
            reader: None,
            claimed: false,
            pieces: 0,
            given: 0,
        })
    }

    /// Pauses the current reader, if this copy can be sent.
    pub(super) fn claim(&mut self) -> bool {
        let mut shared = self.lock();
        if shared.overflowed {
            return false;
        }
        let first = !self.claimed;
        shared.claims += usize::from(first);
        drop(shared);
        self.claimed = true;
        true
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.lock().hint.exact() {
            Some(size) => SizeHint::with_exact(size.saturating_sub(self.given)),
            None => SizeHint::default(),
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let shared = self.lock();
        self.pieces >= shared.buffer.len() && (shared.ended || shared.source.is_end_stream())
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.begin();
        let mut shared = lock(&self.shared);
        if self.reader != Some(shared.reader) {
            return Poll::Ready(Some(Err("the body is sent on another connection".into())));
        }
        if shared.claims > 0 {
            shared.paused = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if let Some(piece) = shared.buffer.get(self.pieces) {
            self.pieces += 1;
            self.given += piece.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        if shared.ended {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut shared.source).poll_frame(cx));
        match frame.as_ref().map(|frame| frame.as_ref().map(Frame::data_ref)) {
            None => shared.ended = true,
            Some(Ok(Some(piece))) => {
                self.given += piece.len() as u64;
                shared.buffer_piece(piece);
                self.pieces = shared.buffer.len();
            }
            // Trailers and errors cannot be repeated.
            Some(_) => shared.stop_buffering(),
        }
        Poll::Ready(frame)
    }

    /// Makes a copy the current reader at its first read; the reader before gets an error.
    fn begin(&mut self) {
        if self.reader.is_some() {
            return;
        }
        let mut shared = self.lock();
        shared.reader += 1;
        let reader = Some(shared.reader);
        self.leave(shared);
        (self.reader, self.claimed) = (reader, false);
    }

    /// Counts this as a copy no longer, and lets a reader go on that it has paused.
    fn leave(&self, mut shared: MutexGuard<'_, Shared>) {
        shared.copies -= 1;
        shared.claims -= usize::from(self.claimed);
        let paused = shared.paused.take();
        drop(shared);
        if let Some(paused) = paused {
            paused.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }
}

impl Shared {
    fn buffer_piece(&mut self, piece: &Bytes) {
        if self.overflowed || self.copies == 0 || piece.len() > self.limit {
            self.stop_buffering();
        } else {
            self.limit -= piece.len();
            self.buffer.push(piece.clone());
        }
    }

    fn stop_buffering(&mut self) {
        self.overflowed = true;
        self.buffer = Vec::new();
    }
}

impl Drop for ReplayStream {
    fn drop(&mut self) {
        if self.reader.is_none() {
            self.leave(self.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::convert::Infallible;

    use futures_util::{FutureExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    use super::super::{Body, Replay};
    use super::*;

    fn body(pieces: &'static [&'static str], limit: usize) -> Body {
        let frames = pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data((*piece).into())));
        Body::replayable(StreamBody::new(stream::iter(frames)), limit)
    }

    fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, BoxError>> {
        body.frame().now_or_never().unwrap()
    }

    async fn rest(body: Body) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_copy_starts_over_and_continues_from_the_source() {
        let mut first = body(&["a", "b", "c"], 100);
        let copy = first.replay().unwrap();
        let _ = next(&mut first);
        let _ = next(&mut first);
        assert_eq!(rest(copy).await, "abc");
        assert!(next(&mut first).unwrap().is_err());
    }

    #[tokio::test]
    async fn a_body_beyond_the_buffer_can_be_sent_only_once() {
        let mut first = body(&["aa", "bb"], 3);
        let mut copy = first.replay().unwrap();
        let _ = next(&mut first);
        assert!(first.replay().is_some());
        let _ = next(&mut first);
        assert!(!copy.claim() && first.replay().is_none());
        drop(copy);
        assert_eq!(rest(first).await, "");
    }

    #[tokio::test]
    async fn a_claim_pauses_the_reader_until_the_copy_is_dropped() {
        let mut first = body(&["a", "b"], 100);
        let mut copy = first.replay().unwrap();
        let _ = next(&mut first);
        assert!(copy.claim());
        assert!(first.frame().now_or_never().is_none());
        drop(copy);
        assert_eq!(rest(first).await, "b");
    }
}
