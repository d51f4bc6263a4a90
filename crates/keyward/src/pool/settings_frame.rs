//! Reads the peer's first SETTINGS frame as it passes, to learn how many streams the peer allows.
//!
//! hyper reports the number only after a stream was opened, and by then a burst of requests has queued
//! up on a connection that may never have room for them.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const HEADER: usize = 9;
const SETTINGS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;
/// The longest first frame to parse: settings are few, and six bytes each.
const LONGEST: usize = 1024;

/// A stream whose first inbound frame is parsed. `learn` is called once.
pub(super) struct SettingsReader<T, F> {
    inner: T,
    looking: Option<Looking<F>>,
}

struct Looking<F> {
    seen: Vec<u8>,
    learn: F,
}

/// How many streams the peer allows; `None` is no limit.
pub(super) type Allowed = Option<u32>;

impl<T, F: FnOnce(Allowed)> SettingsReader<T, F> {
    pub(super) fn new(inner: T, learn: F) -> Self {
        let looking = Some(Looking { seen: Vec::new(), learn });
        Self { inner, looking }
    }

    fn look(&mut self, bytes: &[u8]) {
        let Some(looking) = &mut self.looking else {
            return;
        };
        looking.seen.extend_from_slice(bytes);
        let found = match first_frame(&looking.seen) {
            Frame::Partial => return,
            Frame::Settings(allowed) => allowed,
            // hyper will reject it; nothing is learnt here.
            Frame::Other => None,
        };
        if let Some(looking) = self.looking.take() {
            (looking.learn)(found);
        }
    }
}

enum Frame {
    Partial,
    Settings(Allowed),
    Other,
}

fn first_frame(bytes: &[u8]) -> Frame {
    let Some((&[a, b, c, kind, ..], rest)) = bytes.split_first_chunk::<HEADER>() else {
        return Frame::Partial;
    };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if kind != SETTINGS || length > LONGEST {
        return Frame::Other;
    }
    let Some(payload) = rest.get(..length) else {
        return Frame::Partial;
    };
    // The last of several wins (RFC 9113, 6.5.3: in order).
    let allowed = payload
        .chunks_exact(6)
        .rfind(|entry| u16::from_be_bytes([entry[0], entry[1]]) == MAX_CONCURRENT_STREAMS)
        .map(|entry| u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]));
    Frame::Settings(allowed)
}

impl<T: AsyncRead + Unpin, F: FnOnce(Allowed) + Unpin> AsyncRead for SettingsReader<T, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buf);
        if self.looking.is_some() && done.is_ready() {
            self.look(&buf.filled()[before..]);
        }
        done
    }
}

impl<T: AsyncWrite + Unpin, F: Unpin> AsyncWrite for SettingsReader<T, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use tokio::io::AsyncReadExt;

    use super::*;

    async fn learnt(chunks: &[&[u8]]) -> Option<Allowed> {
        let found = Arc::new(Mutex::new(None));
        let keep = found.clone();
        let mut builder = chunks
            .iter()
            .fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |before, chunk| {
                Box::new(before.chain(std::io::Cursor::new(chunk.to_vec())))
            });
        let mut reader = SettingsReader::new(&mut builder, move |allowed| {
            assert_eq!(keep.lock().unwrap().replace(allowed), None);
        });
        let mut all = Vec::new();
        reader.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, chunks.concat());
        found.lock().unwrap().take()
    }

    #[tokio::test]
    async fn the_limit_is_learnt_however_the_frame_is_cut() {
        let frame = b"\0\0\x0c\x04\0\0\0\0\0\0\x04\0\0\xff\xff\0\x03\0\0\0\x64rest";
        assert_eq!(learnt(&[frame]).await, Some(Some(100)));
        let (first, second) = frame.split_at(14);
        assert_eq!(learnt(&[first, second]).await, Some(Some(100)));
    }

    #[tokio::test]
    async fn settings_without_a_limit_and_other_frames_are_no_limit() {
        assert_eq!(learnt(&[b"\0\0\0\x04\0\0\0\0\0"]).await, Some(None));
        assert_eq!(learnt(&[b"\0\0\x08\x07\0\0\0\0\0"]).await, Some(None));
    }

    #[tokio::test]
    async fn nothing_is_learnt_from_half_a_frame() {
        assert_eq!(learnt(&[b"\0\0\x06\x04\0\0\0\0\0\0\x03\0"]).await, None);
    }
}
