//! One run per question: callers that come meanwhile share its result, good or bad.
//!
//! A flight belongs to no runtime: whoever boards first decides where it runs (a kept thread), and
//! everybody waits on the flight itself. A caller that goes away takes its waker with it; a run that
//! dies without a result gives everybody the flight's fallback.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// At most one run under way, and everybody who waits for it.
pub struct Flight<T> {
    lost: fn() -> T,
    gate: Gate<T>,
}

/// What came of [`Flight::board_unless`].
pub enum Boarding<T, K> {
    /// A result was there already.
    Known(K),
    /// A place in the run under way.
    Seat(Seat<T>),
}

/// A place in a flight: a future of no particular runtime, or a blocking wait. Dropped, it leaves
/// nothing behind.
#[must_use = "a seat does nothing unless waited on"]
pub struct Seat<T> {
    run: Arc<Run<T>>,
    waker: Option<usize>,
}

/// The right, and the duty, to end a flight. Dropped without a result (a panic), everybody gets
/// the flight's fallback instead of waiting for ever.
#[must_use = "dropped, everybody gets the fallback"]
pub struct Landing<T> {
    run: Arc<Run<T>>,
    lost: fn() -> T,
}

impl<T: Clone> Flight<T> {
    /// A flight with nobody on it. `lost` is the result when a run dies without one.
    pub fn new(lost: fn() -> T) -> Self {
        Self { lost, gate: Gate::default() }
    }

    /// Joins the run under way, or starts one: `start` gets the landing and hands it to a thread.
    pub fn board(&self, start: impl FnOnce(Landing<T>)) -> Seat<T> {
        match self.board_unless(|| None::<Infallible>, start) {
            Boarding::Seat(seat) => seat,
            Boarding::Known(never) => match never {},
        }
    }

    /// Joins the run under way. Where there is none, `known` is asked first, and only if it does not
    /// know a result a run is started.
    ///
    /// Between a caller's own look at the result and its boarding a run can have landed. Asked here,
    /// with the gate held, `known` sees everything such a run left behind before it landed. It must
    /// not use this flight itself.
    pub fn board_unless<K>(
        &self,
        known: impl FnOnce() -> Option<K>,
        start: impl FnOnce(Landing<T>),
    ) -> Boarding<T, K> {
        let mut gate = lock(&self.gate);
        if let Some(run) = &*gate {
            return Boarding::Seat(Seat::on(run));
        }
        if let Some(known) = known() {
            return Boarding::Known(known);
        }
        let run = Arc::new(Run::new(&self.gate));
        let seat = Seat::on(&run);
        *gate = Some(Arc::clone(&run));
        drop(gate);
        start(Landing { run, lost: self.lost });
        Boarding::Seat(seat)
    }
}

impl<T> Landing<T> {
    /// Ends the flight with a result for everybody on it.
    pub fn land(self, result: T) {
        self.run.land(result);
    }

    /// Calls `hook` as soon as nobody waits any more, at most once, and not after the landing. Who
    /// boards later starts a run of their own.
    pub fn when_abandoned(&self, hook: impl FnOnce() + Send + 'static) {
        lock(&self.run.cabin).abandoned = Some(Box::new(hook));
        self.run.abandon_if_empty();
    }
}

impl<T> Drop for Landing<T> {
    fn drop(&mut self) {
        if self.run.result.get().is_none() {
            self.run.land((self.lost)());
        }
    }
}

impl<T: Clone> Seat<T> {
    /// Blocks until the result is there, at most this long; `None` when that was not enough.
    pub fn wait(self, limit: Option<Duration>) -> Option<T> {
        let run = &self.run;
        let aloft = |_: &mut Cabin| run.result.get().is_none();
        let cabin = lock(&run.cabin);
        match limit {
            None => drop(run.landed.wait_while(cabin, aloft)),
            Some(limit) => drop(run.landed.wait_timeout_while(cabin, limit, aloft)),
        }
        run.result.get().cloned()
    }
}

impl<T: Clone> Future for Seat<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.poll_with(context, T::clone)
    }
}

impl<T> Seat<T> {
    /// The result as `take` has it, for what thousands would fight for if each had a clone of it.
    pub fn poll_with<R>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&T) -> R,
    ) -> Poll<R> {
        let seat = self;
        if let Some(result) = seat.run.result.get() {
            // Nobody waits for this: where another one is at it, that is as good.
            if let Ok(cabin) = seat.run.cabin.try_lock() {
                wake_some(cabin);
            }
            return Poll::Ready(take(result));
        }
        let mut cabin = lock(&seat.run.cabin);
        // The landing stores the result before it collects the wakers.
        if let Some(result) = seat.run.result.get() {
            return Poll::Ready(take(result));
        }
        let old = cabin.seat(&mut seat.waker, context.waker());
        // A waker can be the last owner of a task with a seat of its own, so none is dropped with
        // the cabin locked.
        drop(cabin);
        drop(old);
        Poll::Pending
    }

    fn on(run: &Arc<Run<T>>) -> Self {
        lock(&run.cabin).seats += 1;
        Self { run: Arc::clone(run), waker: None }
    }
}

impl<T> Drop for Seat<T> {
    fn drop(&mut self) {
        if self.run.result.get().is_some() {
            return;
        }
        let mut cabin = lock(&self.run.cabin);
        // It may have landed in between, and then the cabin is empty already.
        if self.run.result.get().is_some() {
            return;
        }
        let waker = self.waker.and_then(|place| cabin.leave(place));
        cabin.seats -= 1;
        let empty = cabin.seats == 0;
        drop(cabin);
        drop(waker);
        if empty {
            self.run.abandon_if_empty();
        }
    }
}

/// The run under way, if there is one. Locked before a run's cabin, never after.
type Gate<T> = Arc<Mutex<Option<Arc<Run<T>>>>>;

/// One run. It holds the gate and the gate holds it, until it has landed.
struct Run<T> {
    result: OnceLock<T>,
    cabin: Mutex<Cabin>,
    landed: Condvar,
    gate: Gate<T>,
}

#[derive(Default)]
struct Cabin {
    seats: usize,
    wakers: Vec<Option<Waker>>,
    /// How many of them, from the first on, have been woken by the landing.
    woken: usize,
    free: Vec<usize>,
    abandoned: Option<Box<dyn FnOnce() + Send>>,
}

impl<T> Run<T> {
    fn new(gate: &Gate<T>) -> Self {
        Self {
            result: OnceLock::new(),
            cabin: Mutex::default(),
            landed: Condvar::new(),
            gate: Arc::clone(gate),
        }
    }

    fn land(&self, result: T) {
        // Before the gate opens, so that nobody joins a run that is over and none is missed.
        if self.result.set(result).is_err() {
            return;
        }
        self.leave_gate();
        let hook = lock(&self.cabin).abandoned.take();
        drop(hook);
        self.landed.notify_all();
        while wake_some(lock(&self.cabin)) {}
    }
    /// Nobody boards this run any more.
    fn leave_gate(&self) {
        let mut gate = lock(&self.gate);
        if gate.as_deref().is_some_and(|run| std::ptr::eq(run, self)) {
            *gate = None;
        }
    }

    fn abandon_if_empty(&self) {
        let mut gate = lock(&self.gate);
        let mut cabin = lock(&self.cabin);
        if cabin.seats > 0 || self.result.get().is_some() {
            return;
        }
        let Some(hook) = cabin.abandoned.take() else {
            return;
        };
        if gate.as_deref().is_some_and(|run| std::ptr::eq(run, self)) {
            *gate = None;
        }
        drop(cabin);
        drop(gate);
        hook();
    }
}

impl Cabin {
    /// Takes, or keeps, a place for a waker; returns the one that was there.
    fn seat(&mut self, place: &mut Option<usize>, waker: &Waker) -> Option<Waker> {
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
/// so that a waker that takes its time does not hold up everybody else. The one who landed goes on until
/// all are awake, so nobody depends on the others.
fn wake_some(mut cabin: MutexGuard<'_, Cabin>) -> bool {
    const SOME: usize = 16;
    let mut some: [Option<Waker>; SOME] = [const { None }; SOME];
    let woken = cabin.woken;
    let next = cabin.wakers.iter_mut().skip(woken).take(SOME);
    let count = some.iter_mut().zip(next).map(|(place, waker)| *place = waker.take()).count();
    cabin.woken += count;
    drop(cabin);
    some.into_iter().flatten().for_each(Waker::wake);
    count > 0
}

/// Nothing foreign runs under these locks, so what they guard is whole even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::Wake,
        thread,
    };

    use super::*;

    fn flight() -> Flight<&'static str> {
        Flight::new(|| "lost")
    }

    /// A run under way, and what lands it.
    fn aloft(flight: &Flight<&'static str>) -> (Seat<&'static str>, Landing<&'static str>) {
        let (send, receive) = mpsc::channel();
        let seat = flight.board(|landing| send.send(landing).unwrap());
        (seat, receive.recv().unwrap())
    }

    #[test]
    fn those_who_come_meanwhile_share_the_result() {
        let flight = flight();
        let (first, landing) = aloft(&flight);
        let second = flight.board(|_| panic!("a second run"));
        landing.land("done");
        assert_eq!(first.wait(None), Some("done"));
        assert_eq!(second.wait(None), Some("done"));
    }

    #[test]
    fn who_comes_after_the_landing_starts_a_new_run() {
        let flight = flight();
        let (first, landing) = aloft(&flight);
        landing.land("one");
        let (second, landing) = aloft(&flight);
        landing.land("two");
        assert_eq!((first.wait(None), second.wait(None)), (Some("one"), Some("two")));
    }

    #[test]
    fn a_run_that_dies_gives_everybody_the_fallback() {
        let flight = flight();
        let (seat, landing) = aloft(&flight);
        let died = thread::spawn(move || {
            let _landing = landing;
            panic!("a bug");
        });
        assert!(died.join().is_err());
        assert_eq!(seat.wait(None), Some("lost"));
        assert!(!lock(&flight.gate).is_some());
    }

    #[test]
    fn a_known_result_starts_no_run() {
        let flight = flight();
        let boarding = flight.board_unless(|| Some(5), |_| panic!("a run"));
        assert!(matches!(boarding, Boarding::Known(5)));
        assert!(lock(&flight.gate).is_none());
    }

    #[test]
    fn a_wait_ends_at_its_limit_and_the_run_goes_on() {
        let flight = flight();
        let (seat, landing) = aloft(&flight);
        assert_eq!(seat.wait(Some(Duration::from_millis(1))), None);
        let later = flight.board(|_| panic!("a second run"));
        landing.land("done");
        assert_eq!(later.wait(None), Some("done"));
    }

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_dropped_seat_leaves_no_waker_behind() {
        let flight = flight();
        let (first, landing) = aloft(&flight);
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        for _ in 0..1000 {
            let mut seat = flight.board(|_| panic!("a second run"));
            assert!(Pin::new(&mut seat).poll(&mut context).is_pending());
            assert!(Pin::new(&mut seat).poll(&mut context).is_pending());
        }
        assert_eq!(lock(&first.run.cabin).wakers.len(), 1, "places are used again");
        let mut last = flight.board(|_| panic!("a second run"));
        assert!(Pin::new(&mut last).poll(&mut context).is_pending());
        landing.land("done");
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(Pin::new(&mut last).poll(&mut context), Poll::Ready("done"));
        drop(waker);
        drop((first, last));
        assert_eq!(Arc::strong_count(&count), 1, "nobody holds the waker");
    }

    #[test]
    fn all_are_woken_once_and_by_each_other_where_the_landing_is_held_up() {
        struct Held(mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>);
        impl Wake for Held {
            fn wake(self: Arc<Self>) {
                self.0.send(()).unwrap();
                self.1.lock().unwrap().recv().unwrap();
            }
        }
        let flight = flight();
        let (mut first, landing) = aloft(&flight);
        let (held, is_held) = mpsc::sync_channel(0);
        let (go_on, may_go_on) = mpsc::sync_channel(0);
        let waker = Waker::from(Arc::new(Held(held, Mutex::new(may_go_on))));
        assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let mut seats: Vec<_> = (0..1000).map(|_| flight.board(|_| panic!("a run"))).collect();
        for seat in &mut seats {
            assert!(Pin::new(seat).poll(&mut context).is_pending());
        }
        let landed = thread::spawn(move || landing.land("done"));
        is_held.recv().unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        for seat in &mut seats {
            assert_eq!(Pin::new(seat).poll(&mut context), Poll::Ready("done"));
        }
        let held_up = 1000 - count.0.load(Ordering::SeqCst);
        assert!(held_up < 16, "{held_up} are held up with the landing");
        go_on.send(()).unwrap();
        landed.join().unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 1000);
    }

    #[test]
    fn a_waker_that_owns_another_seat_does_not_lock_us_up() {
        struct Owner {
            _seat: Mutex<Seat<&'static str>>,
        }
        impl Wake for Owner {
            fn wake(self: Arc<Self>) {}
        }
        let flight = flight();
        let (mut seat, landing) = aloft(&flight);
        let owned = flight.board(|_| panic!("a second run"));
        let waker = Waker::from(Arc::new(Owner { _seat: Mutex::new(owned) }));
        let _ = Pin::new(&mut seat).poll(&mut Context::from_waker(&waker));
        drop(waker);
        // The old waker is dropped, and with it the other seat.
        let _ = Pin::new(&mut seat).poll(&mut Context::from_waker(Waker::noop()));
        landing.land("done");
    }

    #[test]
    fn an_abandoned_run_hears_of_it_once_and_nobody_joins_it() {
        let flight = flight();
        let (first, landing) = aloft(&flight);
        let second = flight.board(|_| panic!("a second run"));
        let count = Arc::new(AtomicUsize::new(0));
        let hook = Arc::clone(&count);
        landing.when_abandoned(move || {
            hook.fetch_add(1, Ordering::SeqCst);
        });
        drop(first);
        assert_eq!(count.load(Ordering::SeqCst), 0, "somebody waits");
        drop(second);
        assert_eq!(count.load(Ordering::SeqCst), 1);
        let (later, other) = aloft(&flight);
        landing.land("old");
        other.land("new");
        assert_eq!(later.wait(None), Some("new"));
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_run_abandoned_before_it_asked_hears_of_it_too() {
        let (seat, landing) = aloft(&flight());
        drop(seat);
        let (send, receive) = mpsc::channel();
        landing.when_abandoned(move || send.send(()).unwrap());
        assert_eq!(receive.try_recv(), Ok(()));
    }

    #[test]
    fn threads_that_board_drop_and_land_at_random_all_get_an_answer() {
        let flight = Arc::new(Flight::new(|| usize::MAX));
        let runs = Arc::new(AtomicUsize::new(0));
        let board = |flight: &Flight<usize>, runs: &Arc<AtomicUsize>| {
            let runs = Arc::clone(runs);
            flight.board(move |landing| {
                let number = runs.fetch_add(1, Ordering::SeqCst);
                keyward_process::runner::spawn(move || {
                    if number.is_multiple_of(7) {
                        drop(landing);
                    } else {
                        landing.land(number);
                    }
                });
            })
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for turn in 0..500 {
                        let seat = board(&flight, &runs);
                        if turn % 3 == 0 {
                            drop(seat);
                        } else {
                            let result = seat.wait(Some(Duration::from_secs(60)));
                            assert!(result.is_some(), "nobody hangs");
                        }
                    }
                });
            }
        });
        assert!(runs.load(Ordering::SeqCst) <= 8 * 500);
    }
}
