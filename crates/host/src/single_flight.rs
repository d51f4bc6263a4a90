//! One run per question: callers that come meanwhile share its result, good or bad.
//!
//! A single flight belongs to no runtime: whoever comes first decides where it runs (a kept thread), and
//! everybody waits on the flight itself. A caller that goes away takes its waker with it; a run that
//! dies without a result gives everybody a fallback.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use keyward_process::{lock, runner};

/// At most one run under way, and everybody who waits for it.
pub struct SingleFlight<T> {
    lost: fn() -> T,
    current: Current<T>,
}

/// One who waits for a run: a future of no particular runtime, or a blocking wait. Dropped, it leaves
/// nothing behind.
#[must_use = "a waiter does nothing unless it is polled"]
pub struct Waiter<T> {
    run: Arc<Run<T>>,
    waker: Option<usize>,
}

/// The right, and the duty, to complete a run. Dropped without a result (a panic), everybody gets the
/// fallback instead of waiting forever.
#[must_use = "dropped, everybody gets the fallback"]
pub(crate) struct Completer<T> {
    run: Arc<Run<T>>,
    lost: fn() -> T,
}

impl<T: Clone> SingleFlight<T> {
    /// A single flight without a run. `lost` is the result when a run dies without one.
    pub fn new(lost: fn() -> T) -> Self {
        Self { lost, current: Current::default() }
    }

    /// Joins the run under way, or starts one: `start` gets the completer and hands it to a thread.
    pub(crate) fn join(&self, start: impl FnOnce(Completer<T>)) -> Waiter<T> {
        match self.join_unless(|| None::<Infallible>, start) {
            Ok(waiter) => waiter,
            Err(never) => match never {},
        }
    }

    /// Joins the run under way. Where there is none, `known` is asked first, and only if it does not
    /// know a result, which is then the error, a run is started.
    ///
    /// Between a caller's own look at the result and its joining a run can have completed. Asked here,
    /// with the lock held, `known` sees everything such a run left behind before it completed. It must
    /// not use this flight itself.
    pub(crate) fn join_unless<K>(
        &self,
        known: impl FnOnce() -> Option<K>,
        start: impl FnOnce(Completer<T>),
    ) -> Result<Waiter<T>, K> {
        let mut current = lock(&self.current);
        if let Some(run) = &*current {
            return Ok(Waiter::on(run));
        }
        if let Some(known) = known() {
            return Err(known);
        }
        let run = Arc::new(Run::new(&self.current));
        let waiter = Waiter::on(&run);
        *current = Some(Arc::clone(&run));
        drop(current);
        start(Completer { run, lost: self.lost });
        Ok(waiter)
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Waits for the run under way, or for `work`, which is then run on one of Keyward's threads.
    pub fn run(&self, work: impl FnOnce() -> T + Send + 'static) -> Waiter<T> {
        self.join(|completer| spawn(completer, work))
    }

    /// Does what [`SingleFlight::run`] does unless `known` has a result, which is then the error. `known`
    /// is called only when nothing runs, and sees everything that an earlier run left behind. It must not
    /// use this flight.
    pub fn run_unless<K>(
        &self,
        known: impl FnOnce() -> Option<K>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Waiter<T>, K> {
        self.join_unless(known, |completer| spawn(completer, work))
    }
}

fn spawn<T: Send + Sync + 'static>(
    completer: Completer<T>,
    work: impl FnOnce() -> T + Send + 'static,
) {
    runner::spawn(move || completer.complete(work()));
}

impl<T> Completer<T> {
    /// Completes the run with a result for everybody who waits.
    pub(crate) fn complete(self, result: T) {
        self.run.complete(result);
    }

    /// Calls `hook` as soon as nobody waits any more, at most once, and not after the completion. Who
    /// comes later starts a run of their own.
    pub(crate) fn when_abandoned(&self, hook: impl FnOnce() + Send + 'static) {
        lock(&self.run.waiters).abandoned = Some(Box::new(hook));
        self.run.abandon_if_empty();
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if self.run.result.get().is_none() {
            self.run.complete((self.lost)());
        }
    }
}

impl<T: Clone> Waiter<T> {
    /// Blocks until the result is there, at most this long; `None` when that was not enough.
    pub fn wait(self, limit: Option<Duration>) -> Option<T> {
        let run = &self.run;
        let pending = |_: &mut Waiters| run.result.get().is_none();
        let waiters = lock(&run.waiters);
        match limit {
            None => drop(run.completed.wait_while(waiters, pending)),
            Some(limit) => drop(run.completed.wait_timeout_while(waiters, limit, pending)),
        }
        run.result.get().cloned()
    }
}

impl<T: Clone> Future for Waiter<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_with(context, T::clone)
    }
}

impl<T> Waiter<T> {
    /// The result as `take` has it, for what thousands would fight for if each had a clone of it.
    pub fn poll_with<R>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&T) -> R,
    ) -> Poll<R> {
        let waiter = self;
        if let Some(result) = waiter.run.result.get() {
            // Nobody waits for this: where another one is at it, that is as good.
            if let Ok(waiters) = waiter.run.waiters.try_lock() {
                wake_some(waiters);
            }
            return Poll::Ready(take(result));
        }
        let mut waiters = lock(&waiter.run.waiters);
        // The completion stores the result before it collects the wakers.
        if let Some(result) = waiter.run.result.get() {
            return Poll::Ready(take(result));
        }
        let old = waiters.waiter(&mut waiter.waker, context.waker());
        // A waker can be the last owner of a task with a waiter of its own, so none is dropped with
        // the lock held.
        drop(waiters);
        drop(old);
        Poll::Pending
    }

    fn on(run: &Arc<Run<T>>) -> Self {
        lock(&run.waiters).count += 1;
        Self { run: Arc::clone(run), waker: None }
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        if self.run.result.get().is_some() {
            return;
        }
        let mut waiters = lock(&self.run.waiters);
        // It may have completed in between, and then nobody is listed any more.
        if self.run.result.get().is_some() {
            return;
        }
        let waker = self.waker.and_then(|place| waiters.leave(place));
        waiters.count -= 1;
        let empty = waiters.count == 0;
        drop(waiters);
        drop(waker);
        if empty {
            self.run.abandon_if_empty();
        }
    }
}

/// The run under way, if there is one. Locked before a run's waiters, never after.
type Current<T> = Arc<Mutex<Option<Arc<Run<T>>>>>;

/// One run. It and the slot for the current run hold each other until it has completed.
struct Run<T> {
    result: OnceLock<T>,
    waiters: Mutex<Waiters>,
    completed: Condvar,
    current: Current<T>,
}

#[derive(Default)]
struct Waiters {
    count: usize,
    wakers: Vec<Option<Waker>>,
    /// How many of them, from the first on, have been woken by the completion.
    woken: usize,
    free: Vec<usize>,
    abandoned: Option<Box<dyn FnOnce() + Send>>,
}

impl<T> Run<T> {
    fn new(current: &Current<T>) -> Self {
        Self {
            result: OnceLock::new(),
            waiters: Mutex::default(),
            completed: Condvar::new(),
            current: Arc::clone(current),
        }
    }

    fn complete(&self, result: T) {
        // Before the run is retired, so that nobody joins a run that is over and none is missed.
        if self.result.set(result).is_err() {
            return;
        }
        self.retire(&mut lock(&self.current));
        let hook = lock(&self.waiters).abandoned.take();
        drop(hook);
        self.completed.notify_all();
        while wake_some(lock(&self.waiters)) {}
    }

    /// Nobody joins this run any more.
    fn retire(&self, current: &mut Option<Arc<Self>>) {
        if current.as_deref().is_some_and(|run| std::ptr::eq(run, self)) {
            *current = None;
        }
    }

    fn abandon_if_empty(&self) {
        let mut current = lock(&self.current);
        let mut waiters = lock(&self.waiters);
        if waiters.count > 0 || self.result.get().is_some() {
            return;
        }
        let Some(hook) = waiters.abandoned.take() else {
            return;
        };
        self.retire(&mut current);
        drop(waiters);
        drop(current);
        hook();
    }
}

impl Waiters {
    /// Takes, or keeps, a place for a waker; returns the one that was there.
    fn waiter(&mut self, place: &mut Option<usize>, waker: &Waker) -> Option<Waker> {
        if let Some(slot) = place.and_then(|place| self.wakers.get_mut(place)) {
            return match slot {
                Some(old) if old.will_wake(waker) => None,
                slot => slot.replace(waker.clone()),
            };
        }
        if let Some(free) = self.free.pop() {
            *place = Some(free);
            return self.wakers[free].replace(waker.clone());
        }
        *place = Some(self.wakers.len());
        self.wakers.push(Some(waker.clone()));
        None
    }

    fn leave(&mut self, place: usize) -> Option<Waker> {
        let waker = self.wakers.get_mut(place)?.take();
        self.free.push(place);
        waker
    }
}

/// Wakes a few of those who wait, and tells whether there were any. Whoever has been woken does the same,
/// so that a waker that takes its time does not hold up everybody else. The one who completed it goes on until
/// all are awake, so nobody depends on the others.
fn wake_some(mut waiters: MutexGuard<'_, Waiters>) -> bool {
    const SOME: usize = 16;
    let mut some: [Option<Waker>; SOME] = [const { None }; SOME];
    let woken = waiters.woken;
    let next = waiters.wakers.iter_mut().skip(woken).take(SOME);
    let count = some.iter_mut().zip(next).map(|(place, waker)| *place = waker.take()).count();
    waiters.woken += count;
    drop(waiters);
    some.into_iter().flatten().for_each(Waker::wake);
    count > 0
}

#[cfg(test)]
mod tests;
