//! A client's socket that can be inspected while HTTP uses it.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustix::net::{RecvFlags, Shutdown};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};

/// A socket. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Socket(Arc<TcpStream>);

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }

    /// Whether the client has closed its side, even if unread data precedes that.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_left(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let mut asked = [PollFd::new(&*self.0, PollFlags::RDHUP)];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Whether the client has closed its side: on this system never known before all data is read.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_left(&self) -> bool {
        false
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let mut read = None;
            let tried = self.0.try_io(Interest::READABLE, || {
                let size = rustix::net::recv(&*self.0, &mut *room, RecvFlags::empty())?.0;
                read = Some(size);
                // The socket is empty now, so the next read waits for an event instead of trying in
                // vain, as after every request of a client that waits for its answer.
                if 0 < size && size < room.len() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (read, tried) {
                (Some(size), _) => {
                    buf.advance(size);
                    return Poll::Ready(Ok(()));
                }
                (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                _ => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Most responses are a single piece, for which the system has less to do.
        if let [only] = bytes {
            return self.poll_write(cx, only);
        }
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(&*self.0, Shutdown::Write).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn a_read_that_empties_the_socket_misses_nothing_that_comes_later() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(listener.accept().await.unwrap().0);
        let mut buffer = [0; 4];
        for sent in [&b"abc"[..], b"abcd", b"abcdefg", b"h"] {
            client.write_all(sent).await.unwrap();
            let mut received = Vec::new();
            while received.len() < sent.len() {
                let size = socket.read(&mut buffer).await.unwrap();
                received.extend_from_slice(&buffer[..size]);
            }
            assert_eq!(received, sent);
        }
        client.write_all(b"end").await.unwrap();
        drop(client);
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"end");
    }
}
