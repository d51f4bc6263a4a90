//! Reads from a socket ahead of TLS, which asks for 4 KiB at a time, each a system call.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// How much is read at once: a TLS record, and more while the peer fills that.
const LEAST: usize = 16 * 1024;
const MOST: usize = 64 * 1024;

/// A stream with a buffer for reading. While nothing arrives, the buffer takes no memory.
pub(crate) struct ReadAhead<T> {
    inner: T,
    ahead: BytesMut,
    /// How much to read next.
    room: usize,
}

impl<T> ReadAhead<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, ahead: BytesMut::new(), room: LEAST }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadAhead<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.ahead.is_empty() {
            this.ahead.reserve(this.room);
            // `read_buf` keeps nothing between two calls.
            let read = pin!(this.inner.read_buf(&mut this.ahead)).poll(cx);
            if read.is_pending() {
                (this.ahead, this.room) = (BytesMut::new(), LEAST);
            }
            if ready!(read)? >= this.room {
                this.room = MOST;
            }
        }
        let size = this.ahead.len().min(buf.remaining());
        buf.put_slice(&this.ahead[..size]);
        this.ahead.advance(size);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadAhead<T> {
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

    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn everything_arrives_in_order_and_an_idle_stream_has_no_buffer() {
        let (mut peer, stream) = duplex(1 << 20);
        let mut stream = ReadAhead::new(stream);
        let sent: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        peer.write_all(&sent).await.unwrap();
        let mut received = vec![0; sent.len()];
        for piece in received.chunks_mut(4096) {
            stream.read_exact(piece).await.unwrap();
        }
        assert!(received == sent);
        assert_eq!(stream.room, MOST);

        let mut byte = [0];
        let mut waiting = Box::pin(stream.read(&mut byte));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        drop(waiting);
        assert_eq!((stream.ahead.capacity(), stream.room), (0, LEAST));

        peer.write_all(b"x").await.unwrap();
        drop(peer);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"x");
    }
}
