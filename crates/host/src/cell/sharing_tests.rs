//! Ten thousand callers at once, threads and tasks of several runtimes, under a clock in our hand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Cell, Fetch, Fetched, Occasion, tests::Coin};
use crate::{Error, Kind, rules::Rules};
use jiff::Timestamp;
use keyward_process::{
    clock::{Clock, ManualClock, SharedClock},
    surroundings::{Fixed, Surroundings},
};
use tokio::runtime::{Builder, Runtime};

const TASKS: usize = 9_500;
const THREADS: usize = 500;
const LIFE: Duration = Duration::from_secs(600);

/// Callers that have asked. A run waits for as many as it is told to, so that they all are there at
/// the same time.
#[derive(Default)]
struct Crowd {
    asked: Mutex<usize>,
    changed: Condvar,
    awaited: AtomicUsize,
    runs: AtomicUsize,
}

impl Crowd {
    fn ask(&self) {
        *self.asked.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let awaited = self.awaited.load(Ordering::SeqCst);
        let asked = self.asked.lock().unwrap();
        let guard = Duration::from_secs(120);
        let short = |asked: &mut usize| *asked < awaited;
        let (mut asked, wait) = self.changed.wait_timeout_while(asked, guard, short).unwrap();
        assert!(!wait.timed_out(), "not all have asked");
        *asked = 0;
    }

    fn expect(&self, callers: usize) {
        self.awaited.store(callers, Ordering::SeqCst);
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

struct Slow {
    crowd: Arc<Crowd>,
    clock: Arc<ManualClock>,
    serial: AtomicU64,
}

impl Fetch<Coin> for Slow {
    fn fetch(&self, _: &Occasion) -> Result<Fetched<Coin>, Error> {
        self.crowd.runs.fetch_add(1, Ordering::SeqCst);
        self.crowd.wait();
        let serial = self.serial.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(Fetched { value: Coin(serial), expires: Some(self.clock.now() + LIFE) })
    }
}

fn slow_cell() -> (Arc<Cell<Coin>>, Arc<Crowd>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let crowd = Arc::new(Crowd::default());
    let slow =
        Slow { crowd: Arc::clone(&crowd), clock: Arc::clone(&clock), serial: AtomicU64::new(0) };
    let shared = Arc::clone(&clock) as SharedClock;
    (Arc::new(Cell::new(slow, shared, true)), crowd, clock)
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

/// All ask at once, having told of a rejection first if there was one; returns what they got.
fn storm(
    runtimes: &[Runtime],
    cell: &Arc<Cell<Coin>>,
    crowd: &Arc<Crowd>,
    rejected: Option<u64>,
) -> Vec<u64> {
    crowd.expect(TASKS + THREADS);
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| {
            let (cell, crowd) = (Arc::clone(cell), Arc::clone(crowd));
            runtimes[number % runtimes.len()].spawn(async move {
                rejected.inspect(|serial| cell.rejected(*serial, false, None));
                crowd.ask();
                cell.value().await.unwrap().0
            })
        })
        .collect();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (cell, crowd) = (Arc::clone(cell), Arc::clone(crowd));
            let thread = thread::Builder::new().stack_size(128 << 10);
            let ask = move || {
                rejected.inspect(|serial| cell.rejected(*serial, false, None));
                crowd.ask();
                cell.value_blocking().unwrap().0
            };
            thread.spawn(ask).unwrap()
        })
        .collect();
    let mut got: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    got.extend(tasks.into_iter().map(|task| runtimes[0].block_on(task).unwrap()));
    got
}

#[test]
fn ten_thousand_callers_cause_one_run_at_start_at_expiry_and_after_a_refusal() {
    let (cell, crowd, clock) = slow_cell();
    let runtimes = [runtime(), runtime()];

    let got = storm(&runtimes, &cell, &crowd, None);
    assert_eq!((got.len(), crowd.runs()), (10_000, 1));
    assert!(got.iter().all(|serial| *serial == 1));

    clock.advance(LIFE + Duration::from_secs(1));
    let got = storm(&runtimes, &cell, &crowd, None);
    assert_eq!((got.len(), crowd.runs()), (10_000, 2));
    assert!(got.iter().all(|serial| *serial == 2));

    let got = storm(&runtimes, &cell, &crowd, Some(2));
    assert_eq!((got.len(), crowd.runs()), (10_000, 3));
    assert!(got.iter().all(|serial| *serial == 3));
}

#[test]
fn ten_thousand_callers_share_a_failure() {
    let runs = Arc::new(AtomicUsize::new(0));
    let crowd = Arc::new(Crowd::default());
    crowd.expect(10_000);
    let (count, wait) = (Arc::clone(&runs), Arc::clone(&crowd));
    let fetch = move |_: &Occasion| -> Result<Fetched<Coin>, Error> {
        count.fetch_add(1, Ordering::SeqCst);
        wait.wait();
        let nowhere = Surroundings::fixed(Fixed::default());
        Rules::load(&nowhere, Some(Path::new("/nonexistent/kuberc")))?;
        panic!("a file that is not there was read")
    };
    let clock = Arc::new(ManualClock::default());
    let cell = Arc::new(Cell::new(fetch, clock, true));
    let runtime = runtime();
    let tasks: Vec<_> = (0..10_000)
        .map(|_| {
            let (cell, crowd) = (Arc::clone(&cell), Arc::clone(&crowd));
            runtime.spawn(async move {
                crowd.ask();
                cell.value().await.unwrap_err().kind()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(runtime.block_on(task).unwrap(), Kind::BadConfig);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn a_run_outlives_the_runtime_of_whoever_asked_first() {
    let (cell, crowd, _clock) = slow_cell();
    crowd.expect(2);
    let first = runtime();
    let asked = {
        let (cell, crowd) = (Arc::clone(&cell), Arc::clone(&crowd));
        first.spawn(async move {
            crowd.ask();
            cell.value().await.unwrap().0
        })
    };
    while crowd.runs() == 0 {
        thread::yield_now();
    }
    first.shutdown_background();
    let second = runtime();
    let got = second.block_on(async {
        crowd.ask();
        cell.value().await.unwrap().0
    });
    assert_eq!((got, crowd.runs()), (1, 1));
    drop(asked);
}

#[test]
fn threads_that_ask_refuse_and_let_time_pass_never_hang_nor_get_an_old_value() {
    let (cell, crowd, clock) = slow_cell();
    crowd.expect(0);
    let late = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..8 {
            let (cell, clock, late) = (&cell, &clock, &late);
            scope.spawn(move || {
                let mut last = 0;
                for turn in 0..2_000 {
                    let serial = match cell.value_blocking() {
                        Ok(coin) => coin.0,
                        // The others let so much time pass meanwhile that none was still valid.
                        Err(error) => {
                            assert!(error.to_string().contains("had expired before"), "{error}");
                            late.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                    };
                    assert!(serial >= last, "values only get newer");
                    last = serial;
                    match (number + turn) % 5 {
                        0 => cell.rejected(serial, false, None),
                        1 => clock.advance(Duration::from_secs(31)),
                        _ => drop(cell.current()),
                    }
                }
            });
        }
    });
    assert!(late.load(Ordering::SeqCst) < 16_000, "nobody got a value");
}
