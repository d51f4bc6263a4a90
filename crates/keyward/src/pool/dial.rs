//! Connects, and says why a connection came to nothing.

use std::sync::Arc;

use rustls::ClientConfig;
use tokio::time::Instant;

use super::{
    End, Failure, Lease, Many, Shared, Single,
    wire::{self, Wire},
};
use crate::{
    Error,
    connect::{Verdict, Why},
};

impl Shared {
    /// Connects for everybody who waits.
    pub(super) async fn attempt(self: Arc<Self>, end: Arc<End>) {
        let opening = self.open();
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                // Nobody waits. A connection would serve the next one, but a signer may be asking a
                // person, who knows of nobody to answer for.
                () = end.closed(), if self.signer.is_some() => {
                    let mut state = self.lock();
                    if end.receiver_count() == 0 {
                        state.attempt = None;
                        return;
                    }
                }
            }
        };
        let opened = opened.map(|lease| {
            if let Some(Lease::Single(single)) = lease {
                self.keep(single);
            }
        });
        self.lock().attempt = None;
        end.send_replace(Some(opened));
    }

    /// A connection with the handshakes of TLS and HTTP behind it. One that broke because a signer
    /// took too long is tried once more: what it had to ask for it may know now.
    pub(super) async fn dial(
        self: &Arc<Self>,
        tls: &Arc<ClientConfig>,
    ) -> Result<(Wire, Arc<Verdict>), Error> {
        let mut late = false;
        loop {
            let verdict =
                Verdict::new(self.connector.origin(), self.signer.as_ref(), self.settings.patience);
            // Large, and needed for few requests: out of the way of the many.
            let opening = Box::pin(async {
                let io = self.connector.connect(tls, &verdict).await?;
                wire::open(io, Arc::downgrade(self), self, &verdict).await
            });
            let error = match opening.await {
                Ok(wire) => return Ok((wire, verdict)),
                Err(error) => error,
            };
            match verdict.why() {
                Some(Why::Late(_)) if !late => late = true,
                Some(why) => return Err(why.into_error()),
                None => return Err(error),
            }
        }
    }

    /// Says why a request got no response, where the connection knows it. After a signer that was
    /// too slow a request may be sent once more: the server never read it.
    pub(super) fn judge<T>(
        &self,
        sent: Result<T, Failure>,
        verdict: &Verdict,
    ) -> Result<T, Failure> {
        let mut failure = match sent {
            Ok(response) => {
                if verdict.is_signed() {
                    self.lock().late = false;
                }
                return Ok(response);
            }
            Err(failure) => failure,
        };
        match verdict.why() {
            // A second one would cost a signature, and end as the first did.
            None if verdict.is_fruitless() => (failure.unsent, failure.again) = (None, false),
            None => {}
            Some(Why::Refused(error)) => failure = error.into(),
            Some(Why::Late(error)) => {
                let again = !std::mem::replace(&mut self.lock().late, true);
                let unsent = failure.unsent.filter(|_| again);
                failure = Failure { error, unsent, again };
            }
        }
        Err(failure)
    }

    /// Connects. An HTTP/2 connection goes into the pool at once, an HTTP/1.1 one to the caller.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Option<Lease>, Error> {
        let (wire, verdict) = self.dial(&self.tls).await?;
        match wire {
            Wire::Many { sender, load, cut } => {
                let mut state = self.lock();
                state.single = false;
                state.many.push(Many { sender, load, verdict });
                drop(state);
                self.note(cut);
                self.sweep();
                Ok(None)
            }
            Wire::Single { sender, cut } => {
                self.lock().single = true;
                self.note(cut);
                let since = Instant::now();
                Ok(Some(Lease::Single(Single { sender, since, used: false, verdict })))
            }
        }
    }
}
