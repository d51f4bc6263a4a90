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

fn flight() -> SingleFlight<&'static str> {
    SingleFlight::new(|| "lost")
}

/// A run under way, and what lands it.
fn pending(flight: &SingleFlight<&'static str>) -> (Waiter<&'static str>, Completer<&'static str>) {
    let (send, receive) = mpsc::channel();
    let waiter = flight.join(|completer| send.send(completer).unwrap());
    (waiter, receive.recv().unwrap())
}

#[test]
fn those_who_come_meanwhile_share_the_result() {
    let flight = flight();
    let (first, completer) = pending(&flight);
    let second = flight.join(|_| panic!("a second run"));
    completer.complete("done");
    assert_eq!(first.wait(None), Some("done"));
    assert_eq!(second.wait(None), Some("done"));
}

#[test]
fn who_comes_after_the_landing_starts_a_new_run() {
    let flight = flight();
    let (first, completer) = pending(&flight);
    completer.complete("one");
    let (second, completer) = pending(&flight);
    completer.complete("two");
    assert_eq!((first.wait(None), second.wait(None)), (Some("one"), Some("two")));
}

#[test]
fn a_run_that_dies_gives_everybody_the_fallback() {
    let flight = flight();
    let (waiter, completer) = pending(&flight);
    let died = thread::spawn(move || {
        let _landing = completer;
        panic!("a bug");
    });
    assert!(died.join().is_err());
    assert_eq!(waiter.wait(None), Some("lost"));
    assert!(!lock(&flight.current).is_some());
}

#[test]
fn a_known_result_starts_no_run() {
    let flight = flight();
    let boarding = flight.join_unless(|| Some(5), |_| panic!("a run"));
    assert!(matches!(boarding, Err(5)));
    assert!(lock(&flight.current).is_none());
}

#[test]
fn a_wait_ends_at_its_limit_and_the_run_goes_on() {
    let flight = flight();
    let (waiter, completer) = pending(&flight);
    assert_eq!(waiter.wait(Some(Duration::from_millis(1))), None);
    let later = flight.join(|_| panic!("a second run"));
    completer.complete("done");
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
    let (first, completer) = pending(&flight);
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    for _ in 0..1000 {
        let mut waiter = flight.join(|_| panic!("a second run"));
        assert!(Pin::new(&mut waiter).poll(&mut context).is_pending());
        assert!(Pin::new(&mut waiter).poll(&mut context).is_pending());
    }
    assert_eq!(lock(&first.run.waiters).wakers.len(), 1, "places are used again");
    let mut last = flight.join(|_| panic!("a second run"));
    assert!(Pin::new(&mut last).poll(&mut context).is_pending());
    completer.complete("done");
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(Pin::new(&mut last).poll(&mut context), Poll::Ready("done"));
    drop(waker);
    drop((first, last));
    assert_eq!(Arc::strong_count(&count), 1, "nobody holds the waker");
}

#[test]
fn all_are_woken_once_and_by_each_other_where_the_completion_is_held_up() {
    struct Held(mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>);
    impl Wake for Held {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
            self.1.lock().unwrap().recv().unwrap();
        }
    }
    let flight = flight();
    let (mut first, completer) = pending(&flight);
    let (held, is_held) = mpsc::sync_channel(0);
    let (go_on, may_go_on) = mpsc::sync_channel(0);
    let waker = Waker::from(Arc::new(Held(held, Mutex::new(may_go_on))));
    assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut waiters: Vec<_> = (0..1000).map(|_| flight.join(|_| panic!("a run"))).collect();
    for waiter in &mut waiters {
        assert!(Pin::new(waiter).poll(&mut context).is_pending());
    }
    let thread = thread::spawn(move || completer.complete("done"));
    is_held.recv().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    for waiter in &mut waiters {
        assert_eq!(Pin::new(waiter).poll(&mut context), Poll::Ready("done"));
    }
    let held_up = 1000 - count.0.load(Ordering::SeqCst);
    assert!(held_up < 16, "{held_up} are held up with the completion");
    go_on.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(count.0.load(Ordering::SeqCst), 1000);
}

#[test]
fn a_waker_that_owns_another_seat_does_not_lock_us_up() {
    struct Owner {
        _waiter: Mutex<Waiter<&'static str>>,
    }
    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }
    let flight = flight();
    let (mut waiter, completer) = pending(&flight);
    let owned = flight.join(|_| panic!("a second run"));
    let waker = Waker::from(Arc::new(Owner { _waiter: Mutex::new(owned) }));
    let _ = Pin::new(&mut waiter).poll(&mut Context::from_waker(&waker));
    drop(waker);
    // The old waker is dropped, and with it the other waiter.
    let _ = Pin::new(&mut waiter).poll(&mut Context::from_waker(Waker::noop()));
    completer.complete("done");
}

#[test]
fn an_abandoned_run_hears_of_it_once_and_nobody_joins_it() {
    let flight = flight();
    let (first, completer) = pending(&flight);
    let second = flight.join(|_| panic!("a second run"));
    let count = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&count);
    completer.when_abandoned(move || {
        hook.fetch_add(1, Ordering::SeqCst);
    });
    drop(first);
    assert_eq!(count.load(Ordering::SeqCst), 0, "somebody waits");
    drop(second);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let (later, other) = pending(&flight);
    completer.complete("old");
    other.complete("new");
    assert_eq!(later.wait(None), Some("new"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_run_abandoned_before_it_asked_hears_of_it_too() {
    let (waiter, completer) = pending(&flight());
    drop(waiter);
    let (send, receive) = mpsc::channel();
    completer.when_abandoned(move || send.send(()).unwrap());
    assert_eq!(receive.try_recv(), Ok(()));
}

#[test]
fn threads_that_board_drop_and_land_at_random_all_get_an_answer() {
    let flight = Arc::new(SingleFlight::new(|| usize::MAX));
    let runs = Arc::new(AtomicUsize::new(0));
    let board = |flight: &SingleFlight<usize>, runs: &Arc<AtomicUsize>| {
        let runs = Arc::clone(runs);
        flight.join(move |completer| {
            let number = runs.fetch_add(1, Ordering::SeqCst);
            keyward_process::runner::spawn(move || {
                if number.is_multiple_of(7) {
                    drop(completer);
                } else {
                    completer.complete(number);
                }
            });
        })
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for turn in 0..500 {
                    let waiter = board(&flight, &runs);
                    if turn % 3 == 0 {
                        drop(waiter);
                    } else {
                        let result = waiter.wait(Some(Duration::from_secs(60)));
                        assert!(result.is_some(), "nobody hangs");
                    }
                }
            });
        }
    });
    assert!(runs.load(Ordering::SeqCst) <= 8 * 500);
}
