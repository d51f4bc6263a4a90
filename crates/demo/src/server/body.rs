//! The bodies of answers.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::mpsc;

/// The content of large bodies.
static FILL: [u8; 64 * 1024] = [b'k'; 64 * 1024];

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// The whole body at once.
    Whole(Option<Bytes>),
    /// A number of bytes, generated while they are sent.
    Fill(u64),
    /// Pieces as they arrive, until the sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
    /// The request's own body, sent back.
    Echo(Incoming),
    /// A body that promises this many bytes and never sends them.
    Never(u64),
}

impl Body {
    /// An empty body.
    pub fn empty() -> Self {
        Self::Whole(None)
    }

    /// A body and the sender that writes it. The sender waits while the client is slow.
    pub fn stream() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, receiver) = mpsc::channel(16);
        (sender, Self::Stream(receiver))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(Some(bytes.into()))
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Whole(Some(Bytes::from_static(text.as_bytes())))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Fill(0) => Poll::Ready(None),
            Self::Fill(left) => {
                let size = usize::try_from(*left).unwrap_or(FILL.len()).min(FILL.len());
                *left -= size as u64;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&FILL[..size])))))
            }
            Self::Stream(receiver) => {
                receiver.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::Echo(incoming) => {
                Pin::new(incoming).poll_frame(context).map_err(io::Error::other)
            }
            Self::Never(_) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Fill(left) => *left == 0,
            Self::Echo(incoming) => incoming.is_end_stream(),
            Self::Stream(_) | Self::Never(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Self::Fill(left) | Self::Never(left) => SizeHint::with_exact(*left),
            Self::Echo(incoming) => incoming.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
