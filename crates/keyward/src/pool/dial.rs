//! Opens connections, and explains why one failed.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    End, Failure, Http1, Http2, Lease, Shared,
    connection::{self, Connection},
};
use crate::{
    Error,
    connect::{Cause, Diagnosis},
};

impl Shared {
    /// Connects on behalf of all who wait.
    pub(super) async fn attempt(self: Arc<Self>, end: Arc<End>) {
        let opening = self.open();
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                // Nobody waits any more. A connection would serve the next request, but a signer may
                // be prompting a person for nothing.
                () = end.closed(), if self.dialer.is_signed() => {
                    let mut state = self.lock();
                    if end.receiver_count() == 0 {
                        state.attempt = None;
                        return;
                    }
                }
            }
        };
        let opened = opened.map(|lease| {
            if let Some(Lease::Http1(http1)) = lease {
                self.put_back(http1);
            }
        });
        self.lock().attempt = None;
        end.send_replace(Some(opened));
    }

    /// A connection with the handshakes of TLS and HTTP behind it. One that broke because a signer
    /// took too long is tried once more: what it had to ask for it may know now.
    pub(super) async fn dial(
        self: &Arc<Self>,
        upgrade: bool,
    ) -> Result<(Connection, Arc<Diagnosis>), Error> {
        let mut late = false;
        loop {
            let diagnosis = self.dialer.diagnosis();
            // Large, and needed for few requests: out of the way of the many.
            let opening = Box::pin(async {
                let io = self.dialer.connect(upgrade, &diagnosis).await?;
                connection::open(io, Arc::downgrade(self), self, &diagnosis).await
            });
            let error = match opening.await {
                Ok(connection) => return Ok((connection, diagnosis)),
                Err(error) => error,
            };
            match diagnosis.cause() {
                Some(Cause::Late(_)) if !late => late = true,
                Some(cause) => return Err(cause.into_error()),
                None => return Err(error),
            }
        }
    }

    /// Replaces the error of a request by what the connection knows of the reason. After a signer that
    /// was too slow a request may be sent once more: the server never read it.
    pub(super) fn explain<T>(
        &self,
        sent: Result<T, Failure>,
        diagnosis: &Diagnosis,
    ) -> Result<T, Failure> {
        let mut failure = match sent {
            Ok(response) => {
                if diagnosis.is_signed() {
                    self.dialer.note_late(false);
                }
                return Ok(response);
            }
            Err(failure) => failure,
        };
        match diagnosis.cause() {
            // Another connection would cost a signature and fail in the same way.
            None if diagnosis.signed_in_vain() => {
                (failure.unsent, failure.retryable) = (None, false);
            }
            None => {}
            Some(Cause::Rejected(error)) => failure = error.into(),
            Some(Cause::Late(error)) => {
                let retryable = !self.dialer.note_late(true);
                let unsent = failure.unsent.filter(|_| retryable);
                failure = Failure { error, unsent, retryable };
            }
        }
        Err(failure)
    }

    /// Opens a connection. HTTP/2 goes into the pool at once, HTTP/1.1 to the caller.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Option<Lease>, Error> {
        let (connection, diagnosis) = self.dial(false).await?;
        match connection {
            Connection::Http2 { sender, load, cut } => {
                let mut state = self.lock();
                state.http1_only = false;
                state.http2.push(Http2 { sender, load, diagnosis });
                drop(state);
                self.track(cut);
                self.sweep();
                Ok(None)
            }
            Connection::Http1 { sender, cut } => {
                self.lock().http1_only = true;
                self.track(cut);
                let since = Instant::now();
                Ok(Some(Lease::Http1(Http1 { sender, since, used: false, diagnosis })))
            }
        }
    }
}
