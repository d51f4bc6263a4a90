//! Keeps one credential: hands it out without a lock, renews it ahead of its end, backs off.
//!
//! - **Handing out** costs an atomic load, a comparison with a coarse clock and the clone of an
//!   `Arc`: no lock, no allocation. The value is held in eight copies, picked by thread, so that
//!   threads do not fight for one reference count.
//! - **Renewal** needs no timer: a value is renewed by the first call after 80 % of its lifetime,
//!   give or take 5 %, and at the latest 10 s before its end (half-way through a lifetime under
//!   20 s). That call, and all until the end, are served the old value. An idle process runs
//!   nothing. An answer that ends no later than the value there is, or a renewal that fails, moves
//!   the next one to half of the remaining time (after a failure at most ten minutes), and never
//!   starts the backoff below.
//! - **Back-off**: after a failed run that somebody waited for, callers get the same error at once
//!   for 1 s, doubling to 60 s, give or take 20 %, by the monotonic clock.
//! - **Expiry** is compared with the wall clock, and a value is never handed out past it. The one
//!   exception is an answer that had expired when it came: a clock is wrong then, ours or the
//!   provider's, and asking again for every request helps nobody; it is served for as long as a
//!   backoff would last, with a warning.
//! - **Rejections**: [`Cell::rejected`] forgets a value only if it is still the current one. A value
//!   that the server had accepted was revoked, and is replaced at once. One that came after a
//!   rejection and is rejected too, without ever having been accepted, is forgotten only once the
//!   backoff has passed; until then it keeps being handed out, and the server's answer reaches the
//!   caller.

mod backoff;
mod entry;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Mutex},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;
use keyward_protocol::{Secret, duration, exec::Response};

use self::{backoff::Backoff, entry::Entry};
use keyward_process::{
    clock::SharedClock,
    lock,
    runner::{self, Cancel},
};

use crate::{
    Error, Kind, redact,
    single_flight::{Completer, SingleFlight, Waiter},
};

/// Gets a new value. Blocks: it is called on a thread that Keyward keeps, or on that of a caller that
/// may block.
pub trait Fetch<T>: Send + Sync + 'static {
    /// One attempt.
    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<T>, Error>;

    /// Where the values come from, in a few words for the log.
    fn name(&self) -> Cow<'_, str> {
        "a provider".into()
    }

    /// Whether an attempt that nobody waits for is ended, rather than finished for the next caller.
    fn ends(&self) -> bool {
        false
    }

    /// One attempt that `cancel` ends; used where [`Fetch::ends`] says so.
    fn fetch_until(&self, occasion: &Occasion, cancel: &Cancel) -> Result<Fetched<T>, Error> {
        let _ = cancel;
        self.fetch(occasion)
    }
}

impl<T, F> Fetch<T> for F
where
    F: Fn(&Occasion) -> Result<Fetched<T>, Error> + Send + Sync + 'static,
{
    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<T>, Error> {
        self(occasion)
    }
}

/// Why a value is asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Occasion {
    /// There is none, or it has expired. Somebody waits.
    Needed,
    /// The one there is will end soon. Nobody waits: such a run is unattended.
    Ahead,
    /// A server rejected the one there was. Somebody waits.
    Rejected {
        /// What the server said, where that is known.
        response: Option<Arc<Response>>,
        /// Whether the server had accepted that one before, or another since the last rejection.
        was_accepted: bool,
    },
}

/// A value as it came, with the time it may be kept until.
#[derive(Debug)]
pub struct Fetched<T> {
    /// The value.
    pub value: T,
    /// Until when; `None` is forever.
    pub expires: Option<Timestamp>,
}

/// A value that can be kept in several copies, so that threads do not fight for one reference count.
pub(crate) trait CacheValue: Send + Sync + 'static {
    /// A copy with allocations of its own where it matters.
    #[must_use]
    fn copy(&self) -> Self;
    /// Tells values apart: equal only for copies of one value.
    fn serial(&self) -> u64;
    /// Gives every secret in it to `tell`. None of them is shown while the value may be valid.
    fn secrets(&self, tell: &mut dyn FnMut(&Secret)) {
        let _ = tell;
    }
}

/// What became of the last run of a cell, and since when its value is there.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct History {
    /// When the current value came; `None` when there is none.
    pub came: Option<Timestamp>,
    /// When the last run ended.
    pub ran: Option<Timestamp>,
    /// How long it took.
    pub took: Duration,
    /// Why it brought nothing, if so.
    pub error: Option<Error>,
    /// The last runs, the oldest first.
    pub recent: VecDeque<PastRun>,
}

/// How many runs a [`History`] has.
const RECENT: usize = 8;

/// A run that has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PastRun {
    /// When it ended.
    pub ended: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Why it brought nothing, if so, without secrets.
    pub error: Option<String>,
}

/// Keeps one value of a [`Fetch`].
pub(crate) struct Cell<T>(Arc<Shared<T>>);

impl<T: CacheValue> Cell<T> {
    /// An empty cell. Nothing runs until it is asked. `ahead` is whether values are renewed ahead of
    /// their end; without, the first call after the end waits.
    pub(crate) fn new(fetch: impl Fetch<T>, clock: SharedClock, ahead: bool) -> Self {
        Self(Arc::new(Shared {
            fetch: Box::new(fetch),
            clock,
            ahead,
            kept: ArcSwapOption::empty(),
            flight: SingleFlight::new(lost),
            backoff: Mutex::default(),
            history: Mutex::default(),
        }))
    }

    /// The value, if one is there and valid: no lock, no allocation. Past its refresh time this
    /// also starts a run in the background.
    #[inline]
    pub(crate) fn current(&self) -> Option<Arc<T>> {
        let kept = self.0.kept.load();
        let kept = kept.as_ref()?;
        let now = self.0.clock.wall_millis();
        if now >= kept.due() {
            self.0.past_due(kept, now)?;
        }
        Some(kept.copy())
    }

    /// The value, waiting for a run where one is needed. Dropping the future frees the caller and
    /// leaves the run to the next one.
    pub(crate) async fn value(&self) -> Result<Arc<T>, Error> {
        for _ in 0..ROUNDS {
            let mut waiter = match self.ask(Shared::launch) {
                Ok(waiter) => waiter,
                Err(known) => return known,
            };
            let taken = poll_fn(|cx| waiter.poll_with(cx, |completed| self.0.take(completed)));
            if let Some(result) = taken.await {
                return result;
            }
        }
        Err(too_short())
    }

    /// Returns the value like [`value`](Self::value), but blocks the thread. A run that it starts
    /// happens on this thread, which spares a program that needs one value a second thread.
    pub(crate) fn value_blocking(&self) -> Result<Arc<T>, Error> {
        for _ in 0..ROUNDS {
            let fly =
                |shared: &Arc<Shared<T>>, occasion, completer| shared.fly(&occasion, completer);
            let waiter = match self.ask(fly) {
                Ok(waiter) => waiter,
                Err(known) => return known,
            };
            if let Some(result) = self.0.take(&waiter.wait(None).unwrap_or_else(lost)) {
                return result;
            }
        }
        Err(too_short())
    }

    /// A server rejected `serial`: forget it if it is still the current one, so that the next
    /// question runs the fetch: at once if the server had accepted this value before, or another since
    /// the last rejection (`was_accepted`), within the backoff otherwise.
    pub(crate) fn rejected(
        &self,
        serial: u64,
        was_accepted: bool,
        response: Option<Arc<Response>>,
    ) {
        let shared = &self.0;
        let now = shared.clock.elapsed();
        let mut backoff = lock(&shared.backoff);
        let kept = shared.kept.load();
        if kept.as_ref().is_none_or(|kept| kept.serial != serial) {
            return;
        }
        if backoff.reject(now, was_accepted, response) {
            shared.kept.store(None);
        }
    }

    /// Ends a backoff: the next question runs the fetch at once. For when the reason of the failure
    /// is known to be gone, such as after a login.
    pub(crate) fn reset(&self) {
        *lock(&self.0.backoff) = Backoff::default();
    }

    /// The value that came last and was not rejected, even past its end: to be told of, not to be used.
    /// Starts nothing.
    pub(crate) fn last(&self) -> Option<Arc<T>> {
        self.0.kept.load().as_ref().map(|kept| kept.copy())
    }

    /// What became of the last run. Starts nothing.
    pub(crate) fn history(&self) -> History {
        let mut history = lock(&self.0.history).clone();
        if self.0.peek().is_none() {
            history.came = None;
        }
        history
    }

    /// Joins a run, or has `run` start one. The error is what is known without one.
    fn ask(
        &self,
        run: impl FnOnce(&Arc<Shared<T>>, Occasion, Completer<Completed<T>>),
    ) -> Result<Waiter<Completed<T>>, Result<Arc<T>, Error>> {
        if let Some(value) = self.current() {
            return Err(Ok(value));
        }
        let known = || match self.0.peek() {
            Some(value) => Some(Ok(value)),
            None => lock(&self.0.backoff).error(self.0.clock.elapsed()).map(Err),
        };
        self.0.flight.join_unless(known, |completer| {
            let occasion = lock(&self.0.backoff).occasion();
            run(&self.0, occasion, completer);
        })
    }
}

/// A caller that joined a renewal which failed asks again; one whose value expired on the way to it
/// does too. Each round is a run, so somebody who got nothing by then will not.
const ROUNDS: usize = 4;

struct Shared<T> {
    fetch: Box<dyn Fetch<T>>,
    clock: SharedClock,
    ahead: bool,
    kept: ArcSwapOption<Entry<T>>,
    flight: SingleFlight<Completed<T>>,
    /// Nothing foreign runs under these locks.
    backoff: Mutex<Backoff>,
    history: Mutex<History>,
}

/// How a run ended, for everybody who waited.
struct Completed<T> {
    result: Result<Arc<Entry<T>>, Error>,
    /// The run was a renewal: its failure says nothing about a run with a person present.
    ahead: bool,
}

impl<T: CacheValue> Shared<T> {
    /// The value, if one is there and valid, and nothing else.
    fn peek(&self) -> Option<Arc<T>> {
        let kept = self.kept.load();
        let kept = kept.as_ref()?;
        kept.is_good(self.clock.wall_millis(), &*self.clock).then(|| kept.copy())
    }

    /// What a call does after the due time of a value: renew it, and tell whether it is still good.
    #[cold]
    fn past_due(self: &Arc<Self>, kept: &Arc<Entry<T>>, now: i64) -> Option<()> {
        if !kept.is_good(now, &*self.clock) {
            return None;
        }
        if kept.claim_renewal(now) {
            // A run that is under way is as good as ours.
            let _waiter = self.flight.join_unless(
                || (!self.is_current(kept)).then_some(()),
                |completer| self.launch(Occasion::Ahead, completer),
            );
        }
        Some(())
    }

    /// Fetches on a kept thread.
    fn launch(self: &Arc<Self>, occasion: Occasion, completer: Completer<Completed<T>>) {
        let shared = Arc::clone(self);
        runner::spawn(move || shared.fly(&occasion, completer));
    }

    /// Fetches here and now.
    fn fly(&self, occasion: &Occasion, completer: Completer<Completed<T>>) {
        let cancel = Cancel::default();
        let ahead = matches!(occasion, Occasion::Ahead);
        if self.fetch.ends() && !ahead {
            let cancel = cancel.clone();
            completer.when_abandoned(move || cancel.cancel());
        }
        let begun = self.clock.elapsed();
        let fetched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.fetch.fetch_until(occasion, &cancel)
        }));
        let result = match fetched.unwrap_or_else(|_| Err(panicked())) {
            Ok(fresh) => Ok(self.keep(&fresh)),
            Err(error) => {
                // One that was ended says nothing about the next.
                if !cancel.is_cancelled() {
                    self.note_failure(&error, ahead);
                }
                Err(error)
            }
        };
        self.note(begun, result.as_ref().err());
        completer.complete(Completed { result, ahead });
    }

    /// Makes a fresh value the current one.
    fn keep(&self, fresh: &Fetched<T>) -> Arc<Entry<T>> {
        let wall = self.clock.wall_millis();
        // Before anybody has it, and so before anybody can repeat it.
        let lifetime = fresh.expires.map(|end| {
            let rest = u64::try_from(end.as_millisecond().saturating_sub(wall));
            Duration::from_millis(rest.unwrap_or_default())
        });
        fresh.value.secrets(&mut |secret| redact::remember(secret, lifetime));
        let mut backoff = lock(&self.backoff);
        let elapsed = self.clock.elapsed();
        let old = self.kept.load_full();
        let kept = if fresh.expires.is_some_and(|e| e.as_millisecond() < wall) {
            let length = backoff.expired(elapsed);
            let ago = fresh.expires.map_or(0, |end| (wall - end.as_millisecond()) / 1000);
            tracing::warn!(
                "{} answered a credential that had expired {} before: check this machine's \
                 clock and that of whoever issued it; the credential is used for {} s nevertheless",
                self.fetch.name(),
                duration::format(ago.saturating_mul(1_000_000_000)),
                length.as_secs().max(1),
            );
            Entry::expired(fresh, elapsed + length)
        } else {
            backoff.succeed(elapsed);
            Entry::new(fresh, wall, self.ahead, old.as_deref())
        };
        let kept = Arc::new(kept);
        self.kept.store(Some(Arc::clone(&kept)));
        kept
    }

    fn note(&self, begun: Duration, error: Option<&Error>) {
        let now = self.clock.now();
        let took = self.clock.elapsed().saturating_sub(begun);
        let shown = error.map(|error| redact::redact(&error.to_string()).into_owned());
        let mut history = lock(&self.history);
        if error.is_none() {
            history.came = Some(now);
        }
        history.ran = Some(now);
        history.took = took;
        history.error = error.cloned();
        if history.recent.len() == RECENT {
            history.recent.pop_front();
        }
        history.recent.push_back(PastRun { ended: now, took, error: shown });
    }

    fn note_failure(&self, error: &Error, ahead: bool) {
        if ahead {
            if let Some(kept) = &*self.kept.load() {
                kept.postpone_renewal(self.clock.wall_millis());
            }
        } else {
            lock(&self.backoff).fail(self.clock.elapsed(), error);
        }
    }

    /// What a caller that waited gets; `None` to ask again.
    fn take(&self, completed: &Completed<T>) -> Option<Result<Arc<T>, Error>> {
        match &completed.result {
            Ok(kept) => {
                kept.is_good(self.clock.wall_millis(), &*self.clock).then(|| Ok(kept.copy()))
            }
            Err(_) if completed.ahead => None,
            Err(error) => Some(Err(error.clone())),
        }
    }

    fn is_current(&self, kept: &Arc<Entry<T>>) -> bool {
        self.kept.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, kept))
    }
}

impl<T> Clone for Completed<T> {
    fn clone(&self) -> Self {
        Self { result: self.result.clone(), ahead: self.ahead }
    }
}

fn lost<T>() -> Completed<T> {
    Completed {
        result: Err(Error::new(Kind::Failed, "the system has no thread for another run")),
        ahead: false,
    }
}

fn panicked() -> Error {
    Error::new(Kind::Failed, "getting a credential panicked")
}

fn too_short() -> Error {
    Error::new(Kind::Failed, "each credential had expired before it could be handed out")
}
