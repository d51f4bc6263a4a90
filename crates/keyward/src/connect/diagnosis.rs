//! Why a connection failed. In TLS 1.3 a server rejects a client certificate after the client's side of
//! the handshake is over, so the reason is the first thing read, or comes instead of a write.

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

use keyward_host::SignerCertificate;
use rustls::AlertDescription as Alert;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Error, Origin, error::Kind, tls::Handshake};

/// What is known of one connection that helps to explain its end.
pub(crate) struct Diagnosis {
    origin: Origin,
    pub(super) signing: Option<Signing>,
    alert: OnceLock<Alert>,
    /// The server sent something after the handshake.
    server_spoke: AtomicBool,
}

/// The signature of a connection by an external signer.
pub(super) struct Signing {
    certificate: Arc<SignerCertificate>,
    /// How long a signer may take before it is to blame for the end of a connection.
    slow: Duration,
    pub(super) handshake: Handshake,
}

/// Why a connection failed, where more is known than the socket's error.
pub(crate) enum Cause {
    /// The certificate, or its signature, was not accepted.
    Rejected(Error),
    /// The signer took longer than the server waits.
    Late(Error),
}

impl Diagnosis {
    /// For a connection to `origin`, perhaps with a signer and the time after which it is slow.
    pub(super) fn new(
        origin: &Origin,
        signer: Option<(&Arc<SignerCertificate>, Duration)>,
    ) -> Arc<Self> {
        Arc::new(Self {
            origin: origin.clone(),
            signing: signer.map(|(certificate, slow)| Signing {
                certificate: Arc::clone(certificate),
                slow,
                handshake: Handshake::default(),
            }),
            alert: OnceLock::new(),
            server_spoke: AtomicBool::new(false),
        })
    }

    /// Whether a signer has signed for the connection.
    pub(crate) fn is_signed(&self) -> bool {
        self.signing.as_ref().is_some_and(|signing| signing.handshake.signature().is_some())
    }

    /// Whether a signer has signed and the server has sent nothing since.
    pub(crate) fn signed_in_vain(&self) -> bool {
        self.is_signed() && !self.server_spoke.load(Ordering::Relaxed)
    }

    /// Why the connection ended; `None` if the socket's error is all there is.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let alert = self.alert.get().filter(|alert| is_about_certificates(**alert));
        if let Some(alert) = alert {
            return Some(Cause::Rejected(self.rejection(*alert)));
        }
        let signing = self.signing.as_ref()?;
        let took = signing.handshake.signature().filter(|took| *took >= signing.slow)?;
        if self.server_spoke.load(Ordering::Relaxed) {
            return None;
        }
        Some(Cause::Late(Error::unsigned(&self.origin, signing.certificate.too_slow(took))))
    }

    /// Records the server's alert, if the error is one.
    pub(super) fn note(&self, error: &io::Error) {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(rustls::Error::AlertReceived(alert)) = inner {
            let _ = self.alert.set(*alert);
        }
    }

    fn rejection(&self, alert: Alert) -> Error {
        let origin = &self.origin;
        let said = rustls::Error::AlertReceived(alert);
        match &self.signing {
            Some(signing) => {
                Error::unsigned(origin, signing.certificate.not_accepted(&said.to_string()))
            }
            None => {
                let what = match alert {
                    Alert::CertificateRequired => "wants a client certificate",
                    _ => "did not accept the client certificate",
                };
                Error::because(Kind::Connect, format!("`{origin}` {what}"), said)
            }
        }
    }
}

impl Signing {
    /// Lets a resident signer ask for its PIN now: a server does not wait for a person.
    pub(super) async fn unlock(&self) -> Result<(), Error> {
        if self.certificate.is_resident() {
            let certificate = Arc::clone(&self.certificate);
            let unlocked = self.handshake.block(move |stop| certificate.unlock(stop)).await;
            unlocked.ok_or_else(|| {
                Error::because(Kind::Connect, "the signer cannot be asked", no_thread())
            })??;
        }
        self.handshake.unlocked();
        Ok(())
    }

    /// Whether a resumed session may spare the signature, and a person the prompt.
    pub(super) fn may_resume(&self) -> bool {
        self.certificate.is_resident() && self.certificate.resumes()
    }
}

pub(super) fn no_thread() -> io::Error {
    io::Error::other("the system has no thread for it")
}

impl Cause {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Rejected(error) | Self::Late(error) => error,
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

/// A stream whose alerts and first bytes go into a [`Diagnosis`].
pub(crate) struct Observed<T> {
    inner: T,
    diagnosis: Arc<Diagnosis>,
    /// The error of a write, kept until the reason for it has been read.
    failed: Option<io::Error>,
    /// We ended our side, so a failed write says nothing about the server's.
    is_shut_down: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Observed<T> {
    pub(crate) fn new(inner: T, diagnosis: &Arc<Diagnosis>) -> Self {
        Self { inner, diagnosis: Arc::clone(diagnosis), failed: None, is_shut_down: false }
    }

    /// Writes, and after a failure reads the reason, which the server sent before it closed the
    /// connection. The runtime may not know yet that there is something to read; the failure waits for
    /// that, and not in vain: a closed connection is always readable.
    fn write<R>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let error = match self.failed.take() {
            Some(error) => error,
            None => match write(Pin::new(&mut self.inner), cx) {
                Poll::Ready(Err(error)) => error,
                done => return done,
            },
        };
        self.diagnosis.note(&error);
        if self.diagnosis.alert.get().is_none()
            && !self.diagnosis.server_spoke.load(Ordering::Relaxed)
        {
            // Nothing is lost: a stream that cannot be written to is of no use to a reader either.
            let mut rest = [0; 1];
            match Pin::new(&mut self.inner).poll_read(cx, &mut ReadBuf::new(&mut rest)) {
                Poll::Ready(Err(reason)) => self.diagnosis.note(&reason),
                Poll::Pending if !self.is_shut_down && is_closed_by_peer(&error) => {
                    self.failed = Some(error);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        Poll::Ready(Err(error))
    }
}

fn is_closed_by_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

impl<T: AsyncRead + Unpin> AsyncRead for Observed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buf);
        match &done {
            Poll::Ready(Err(error)) => self.diagnosis.note(error),
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                self.diagnosis.server_spoke.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        done
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Observed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |inner, cx| inner.poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut_down = true;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |inner, cx| inner.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
