//! What a server makes of our certificate. TLS 1.3 says it late: the handshake is over for us, and
//! the first thing we read, or fail to write, is the verdict.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use keyward_host::signer::Identity;
use rustls::AlertDescription as Alert;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Error, Origin, error::Kind, identity::Handshake};

/// One attempt to connect, and what came of it.
pub(crate) struct Verdict {
    origin: Origin,
    signing: Option<Signing>,
    /// How long a signer may take before it is to blame for the end of a connection.
    patience: Duration,
    alert: OnceLock<Alert>,
    /// The server said something after the handshake.
    heard: AtomicBool,
}

/// A connection that an external signer signs.
pub(super) struct Signing {
    identity: Arc<Identity>,
    pub(super) handshake: Handshake,
}

/// Why a connection broke, where we know better than the socket.
pub(crate) enum Why {
    /// The certificate, or its signature, was not accepted.
    Refused(Error),
    /// The signer took longer than the server waits.
    Late(Error),
}

impl Verdict {
    pub(crate) fn new(
        origin: &Origin,
        identity: Option<&Arc<Identity>>,
        patience: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            origin: origin.clone(),
            signing: identity.map(|identity| Signing {
                identity: Arc::clone(identity),
                handshake: Handshake::default(),
            }),
            patience,
            alert: OnceLock::new(),
            heard: AtomicBool::new(false),
        })
    }

    pub(super) fn signing(&self) -> Option<&Signing> {
        self.signing.as_ref()
    }

    /// Whether a signer has signed for it.
    pub(crate) fn is_signed(&self) -> bool {
        self.took().is_some()
    }

    /// Whether a signer has signed for it and the server has not said a word since.
    pub(crate) fn is_fruitless(&self) -> bool {
        self.is_signed() && !self.heard.load(Ordering::Relaxed)
    }

    /// What is known about its end; nothing if the socket's own error is all there is.
    pub(crate) fn why(&self) -> Option<Why> {
        let alert = self.alert.get().filter(|alert| is_about_certificates(**alert));
        if let Some(alert) = alert {
            return Some(Why::Refused(self.refusal(*alert)));
        }
        let took = self.took().filter(|took| *took >= self.patience)?;
        if self.heard.load(Ordering::Relaxed) {
            return None;
        }
        let identity = &self.signing.as_ref()?.identity;
        Some(Why::Late(Error::unsigned(&self.origin, identity.too_slow(took))))
    }

    /// Remembers what the server said, if this is it.
    pub(super) fn note(&self, error: &io::Error) {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(rustls::Error::AlertReceived(alert)) = inner {
            let _ = self.alert.set(*alert);
        }
    }

    fn took(&self) -> Option<Duration> {
        self.signing.as_ref()?.handshake.signature()
    }

    fn refusal(&self, alert: Alert) -> Error {
        let origin = &self.origin;
        let said = rustls::Error::AlertReceived(alert);
        match &self.signing {
            Some(signing) => {
                Error::unsigned(origin, signing.identity.not_accepted(&said.to_string()))
            }
            None if alert == Alert::CertificateRequired => Error::because(
                Kind::Connect,
                format!("`{origin}` wants a client certificate"),
                said,
            ),
            None => {
                let message = format!("`{origin}` did not accept the client certificate");
                Error::because(Kind::Connect, message, said)
            }
        }
    }
}

impl Signing {
    /// Has a signer that stays ask for its PIN now: a server does not wait for a person.
    pub(super) async fn unlock(&self) -> Result<(), Error> {
        if self.identity.is_resident() {
            let identity = Arc::clone(&self.identity);
            let unlocked = self.handshake.block(move |stop| identity.unlock(stop)).await;
            unlocked.ok_or_else(|| {
                Error::because(Kind::Connect, "the signer cannot be asked", no_thread())
            })??;
        }
        self.handshake.unlocked();
        Ok(())
    }

    /// Whether a connection may need no signature, and a person no question.
    pub(super) fn may_resume(&self) -> bool {
        self.identity.is_resident() && self.identity.resumes()
    }
}

pub(super) fn no_thread() -> io::Error {
    io::Error::other("the system has no thread for it")
}

impl Why {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) | Self::Late(error) => error,
        }
    }
}

const fn is_about_certificates(alert: Alert) -> bool {
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
    )
}

/// A stream that is listened to for the verdict.
pub(crate) struct Listen<T> {
    inner: T,
    verdict: Arc<Verdict>,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Listen<T> {
    pub(crate) fn new(inner: T, verdict: &Arc<Verdict>) -> Self {
        Self { inner, verdict: Arc::clone(verdict) }
    }

    /// A write that failed: the reason may be there to be read.
    fn failed<R>(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if let Poll::Ready(Err(error)) = &done {
            self.verdict.note(error);
            if self.verdict.alert.get().is_none() && !self.verdict.heard.load(Ordering::Relaxed) {
                // Nothing is lost: what cannot be written to is of no more use to a reader either.
                let mut rest = [0; 1];
                let read = Pin::new(&mut self.inner).poll_read(cx, &mut ReadBuf::new(&mut rest));
                if let Poll::Ready(Err(error)) = read {
                    self.verdict.note(&error);
                }
            }
        }
        done
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Listen<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buf);
        match &done {
            Poll::Ready(Err(error)) => self.verdict.note(error),
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                self.verdict.heard.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        done
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Listen<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.failed(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(cx);
        self.failed(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.failed(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
