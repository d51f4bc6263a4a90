//! One handshake in which an external signer may be asked.
//!
//! rustls asks for a signature in the middle of its own work and waits for it. A person may have to
//! find a PIN meanwhile, so such a handshake is driven by a thread of its own and the runtime goes
//! on. rustls cannot be told for which connection it signs; the thread can.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keyward_process::{
    clock::{Clock, SystemClock},
    runner::{self, Cancel},
};
use tokio::{runtime, sync::oneshot};

thread_local! {
    /// The handshake that this thread drives.
    static CURRENT: RefCell<Option<Handshake>> = const { RefCell::new(None) };
}

/// What is known of a handshake from outside. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Handshake(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stop: Cancel,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The signer is at work since.
    since: Option<Duration>,
    /// It was at work for so long before.
    spent: Duration,
    /// There is a good signature.
    signed: bool,
    /// The signer was given the chance to ask for a PIN.
    unlocked: bool,
    /// A signature was wanted before that.
    early: bool,
}

impl Handshake {
    /// How long the signer has been at work.
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

    /// Whether it failed because the server wanted a signature before the signer was unlocked.
    pub(crate) fn was_early(&self) -> bool {
        self.progress().early
    }

    /// Does something that blocks on a thread of its own. Dropping the future ends what the signer
    /// does for it. `None` when the system has no thread.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Option<T> {
        let mut end = End(Some(&self.0.stop));
        let (done, result) = oneshot::channel();
        let handshake = self.clone();
        runner::spawn(move || {
            // Nobody waits any more if this fails.
            let _ = done.send(job(&handshake.0.stop));
        });
        let result = result.await.ok();
        end.0 = None;
        result
    }

    /// Drives a future on a thread of its own, where it may sign. Dropping what this returns drops
    /// the future too, and ends the signer. `None` when the system has no thread.
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
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the signer of this thread's handshake has had its chance to ask for a PIN. If not, that
/// is noted: the handshake is to fail now, and to be tried again after it.
pub(super) fn is_unlocked() -> bool {
    CURRENT.with_borrow(|current| {
        current.as_ref().is_none_or(|handshake| {
            let mut progress = handshake.progress();
            progress.early |= !progress.unlocked;
            progress.unlocked
        })
    })
}

/// Asks a signer for the handshake of this thread: with its stop, and noting how long it takes.
pub(super) fn signing<T, E>(ask: impl FnOnce(&Cancel) -> Result<T, E>) -> Result<T, E> {
    let Some(handshake) = CURRENT.with_borrow(Clone::clone) else {
        // Somebody else's connection: it blocks, and nothing can stop it.
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

/// Ends the signer when nobody waits for it any more.
struct End<'a>(Option<&'a Cancel>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(stop) = self.0 {
            stop.cancel();
        }
    }
}
