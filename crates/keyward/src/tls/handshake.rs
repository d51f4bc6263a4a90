//! A handshake in which an external signer may have to sign.
//!
//! rustls asks for a signature synchronously. A person may have to find a PIN meanwhile, so such a
//! handshake runs on a thread of its own and does not block the runtime. rustls does not pass on which
//! connection a signature is for; a thread-local of that thread does.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use keyward_process::{
    clock::{Clock, SystemClock},
    lock,
    runner::{self, Cancel},
};
use tokio::{runtime, sync::oneshot};

thread_local! {
    /// The handshake that this thread drives.
    static CURRENT: RefCell<Option<Handshake>> = const { RefCell::new(None) };
}

/// The state of a handshake, shared with its thread. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handshake(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stop: Cancel,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// When the signer began its current work.
    since: Option<Duration>,
    /// How long the signer worked before that.
    spent: Duration,
    /// The signer has returned a good signature.
    signed: bool,
    /// The signer was given the chance to ask for a PIN.
    unlocked: bool,
    /// The server wanted a signature before the signer was unlocked.
    early: bool,
}

impl Handshake {
    /// How long the signer has worked so far.
    pub(crate) fn spent(&self) -> Duration {
        let progress = self.progress();
        let now = progress.since.map(|since| SystemClock.elapsed().saturating_sub(since));
        progress.spent + now.unwrap_or_default()
    }

    /// How long the signer took, if there is a signature.
    pub(crate) fn signature(&self) -> Option<Duration> {
        let progress = self.progress();
        progress.signed.then_some(progress.spent)
    }

    /// The signer may be asked from now on.
    pub(crate) fn unlocked(&self) {
        let mut progress = self.progress();
        progress.unlocked = true;
        progress.early = false;
    }

    /// Whether the handshake failed because the server wanted a signature before the signer was unlocked.
    pub(crate) fn was_early(&self) -> bool {
        self.progress().early
    }

    /// Runs a blocking job on a thread of its own. Dropping the future cancels the signer. `None` when
    /// the system has no thread left.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Option<T> {
        let mut end = End(Some(&self.0.stop));
        let (done, result) = oneshot::channel();
        let handshake = self.clone();
        runner::spawn(move || {
            // Fails only if nobody waits any more.
            let _ = done.send(job(&handshake.0.stop));
        });
        let result = result.await.ok();
        end.0 = None;
        result
    }

    /// Drives a future on a thread of its own, where it may sign. Dropping the returned future drops the
    /// driven one too, and cancels the signer. `None` when the system has no thread left.
    pub(crate) async fn drive<F>(&self, future: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let runtime = runtime::Handle::current();
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let handshake = self.clone();
        let driven = self.block(move |_| {
            CURRENT.set(Some(handshake));
            let done = runtime.block_on(async {
                tokio::select! {
                    done = future => Some(done),
                    _ = unwanted => None,
                }
            });
            CURRENT.set(None);
            done
        });
        driven.await.flatten()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.0.progress)
    }
}

/// Whether the signer of this thread's handshake may ask for a PIN. If not, that is recorded: the
/// handshake fails, and is tried again once the signer is unlocked.
pub(super) fn is_unlocked() -> bool {
    CURRENT.with_borrow(|current| {
        current.as_ref().is_none_or(|handshake| {
            let mut progress = handshake.progress();
            progress.early |= !progress.unlocked;
            progress.unlocked
        })
    })
}

/// Asks a signer for the handshake of this thread, passes on its cancellation and records the time.
pub(super) fn signing<T, E>(ask: impl FnOnce(&Cancel) -> Result<T, E>) -> Result<T, E> {
    let Some(handshake) = CURRENT.with_borrow(Clone::clone) else {
        // Not a connection of ours: it blocks, and nothing can cancel it.
        return ask(&Cancel::default());
    };
    handshake.progress().since = Some(SystemClock.elapsed());
    let answer = ask(&handshake.0.stop);
    let mut progress = handshake.progress();
    if let Some(since) = progress.since.take() {
        progress.spent += SystemClock.elapsed().saturating_sub(since);
    }
    progress.signed |= answer.is_ok();
    drop(progress);
    answer
}

/// Cancels the signer when nobody waits for it any more.
struct End<'a>(Option<&'a Cancel>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.0 {
            stop.cancel();
        }
    }
}
