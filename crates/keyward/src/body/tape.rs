//! A stream whose beginning is kept for as long as somebody may want to send it again.
//!
//! ```text
//! source ──► reel (kept: the first bytes) ──► the one who sends now
//!                                        └──► a copy, from the beginning, which then goes on
//! ```
//!
//! A server that refuses a request has often not read all of its body. A copy plays what was kept
//! and goes on with the source from there, so that a body of any length can be sent again as long
//! as no more of it was sent than is kept.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

use super::BoxError;

/// A reader of a reel.
pub(super) struct Tape {
    reel: Arc<Mutex<Reel>>,
    /// `None` for a copy that nobody reads yet.
    turn: Option<u64>,
    /// It rests the others until it is read or dropped.
    claimed: bool,
    /// Kept pieces, and bytes, that it has given.
    pieces: usize,
    given: u64,
}

struct Reel {
    source: UnsyncBoxBody<Bytes, BoxError>,
    hint: SizeHint,
    kept: Vec<Bytes>,
    room: usize,
    /// More went by than could be kept.
    gone: bool,
    ended: bool,
    /// Whose turn it is to read.
    turn: u64,
    /// Copies that nobody reads yet, and those of them that rest the reader.
    copies: usize,
    claims: usize,
    resting: Option<Waker>,
}

impl Tape {
    pub(super) fn new(source: UnsyncBoxBody<Bytes, BoxError>, room: usize) -> Self {
        let reel = Reel {
            hint: source.size_hint(),
            source,
            kept: Vec::new(),
            room,
            gone: false,
            ended: false,
            turn: 0,
            copies: 0,
            claims: 0,
            resting: None,
        };
        let reel = Arc::new(Mutex::new(reel));
        Self { reel, turn: Some(0), claimed: false, pieces: 0, given: 0 }
    }

    pub(super) fn copy(&self) -> Option<Self> {
        let mut reel = self.lock();
        if reel.gone {
            return None;
        }
        reel.copies += 1;
        Some(Self { reel: self.reel.clone(), turn: None, claimed: false, pieces: 0, given: 0 })
    }

    /// Rests the reader, if this copy could be sent.
    pub(super) fn claim(&mut self) -> bool {
        let mut reel = self.lock();
        if reel.gone {
            return false;
        }
        let first = !self.claimed;
        reel.claims += usize::from(first);
        drop(reel);
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
        let reel = self.lock();
        self.pieces >= reel.kept.len() && (reel.ended || reel.source.is_end_stream())
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.begin();
        let mut reel = self.reel.lock().unwrap_or_else(PoisonError::into_inner);
        if self.turn != Some(reel.turn) {
            return Poll::Ready(Some(Err("the body is sent on another connection".into())));
        }
        if reel.claims > 0 {
            reel.resting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if let Some(piece) = reel.kept.get(self.pieces) {
            self.pieces += 1;
            self.given += piece.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        if reel.ended {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut reel.source).poll_frame(cx));
        match frame.as_ref().map(|frame| frame.as_ref().map(Frame::data_ref)) {
            None => reel.ended = true,
            Some(Ok(Some(piece))) => {
                self.given += piece.len() as u64;
                reel.keep(piece);
                self.pieces = reel.kept.len();
            }
            // Trailers and errors come once.
            Some(_) => reel.forget(),
        }
        Poll::Ready(frame)
    }

    /// The first read of a copy makes it the reader; the one before gets an error.
    fn begin(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let mut reel = self.lock();
        reel.copies -= 1;
        reel.claims -= usize::from(self.claimed);
        reel.turn += 1;
        let (turn, resting) = (reel.turn, reel.resting.take());
        drop(reel);
        (self.turn, self.claimed) = (Some(turn), false);
        if let Some(resting) = resting {
            resting.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reel> {
        self.reel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reel {
    fn keep(&mut self, piece: &Bytes) {
        if self.gone || self.copies == 0 || piece.len() > self.room {
            self.forget();
        } else {
            self.room -= piece.len();
            self.kept.push(piece.clone());
        }
    }

    fn forget(&mut self) {
        self.gone = true;
        self.kept = Vec::new();
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if self.turn.is_some() {
            return;
        }
        let mut reel = self.lock();
        reel.copies -= 1;
        reel.claims -= usize::from(self.claimed);
        let resting = reel.resting.take();
        drop(reel);
        if let Some(resting) = resting {
            resting.wake();
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

    fn body(pieces: &'static [&'static str], room: usize) -> Body {
        let frames = pieces.iter().map(|piece| Ok::<_, Infallible>(Frame::data((*piece).into())));
        Body::replayable(StreamBody::new(stream::iter(frames)), room)
    }

    fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, BoxError>> {
        body.frame().now_or_never().unwrap()
    }

    async fn rest(body: Body) -> Bytes {
        body.collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_copy_begins_anew_and_goes_on_where_the_first_was() {
        let mut first = body(&["a", "b", "c"], 100);
        let copy = first.replay().unwrap();
        let _ = next(&mut first);
        let _ = next(&mut first);
        assert_eq!(rest(copy).await, "abc");
        assert!(next(&mut first).unwrap().is_err());
    }

    #[tokio::test]
    async fn what_is_too_long_to_keep_can_be_sent_once_only() {
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
    async fn a_claim_rests_the_first_until_the_copy_is_dropped() {
        let mut first = body(&["a", "b"], 100);
        let mut copy = first.replay().unwrap();
        let _ = next(&mut first);
        assert!(copy.claim());
        assert!(first.frame().now_or_never().is_none());
        drop(copy);
        assert_eq!(rest(first).await, "b");
    }
}
