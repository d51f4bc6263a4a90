#![allow(clippy::unwrap_used)]

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use super::*;
use keyward_process::clock::{Clock, ManualClock};

/// A value that is only its number.
#[derive(Debug)]
pub(super) struct Coin(pub(super) u64);

impl CacheValue for Coin {
    fn copy(&self) -> Self {
        Self(self.0)
    }

    fn serial(&self) -> u64 {
        self.0
    }
}

/// What the next run does. The last one stays.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// Brings a value for so many seconds from now; negative is in the past.
    Lasts(i64),
    /// Brings one that ends at this second of the clock.
    EndsAt(i64),
    ForEver,
    Fails,
    Panics,
}

/// A cell whose runs are counted, under a clock in our hand.
struct Mint {
    cell: Cell<Coin>,
    clock: Arc<ManualClock>,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    turns: Mutex<VecDeque<Turn>>,
    runs: AtomicUsize,
    occasions: Mutex<Vec<String>>,
    serial: AtomicU64,
}

impl Mint {
    fn new(turns: &[Turn]) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        let log =
            Arc::new(Log { turns: Mutex::new(turns.iter().copied().collect()), ..Log::default() });
        let (time, notes) = (Arc::clone(&clock), Arc::clone(&log));
        let fetch = move |occasion: &Occasion| notes.fetch(occasion, &time);
        let cell = Cell::new(fetch, Arc::clone(&clock) as SharedClock, true);
        Self { cell, clock, log }
    }

    fn pass(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
    }

    fn runs(&self) -> usize {
        self.log.runs.load(Ordering::SeqCst)
    }

    fn value(&self) -> u64 {
        self.cell.value_blocking().unwrap().0
    }

    fn occasions(&self) -> Vec<String> {
        self.log.occasions.lock().unwrap().clone()
    }

    /// Waits for the run in the background to land.
    fn settle(&self) {
        if let Ok(waiter) = self.cell.0.flight.join_unless(|| Some(()), |_| {}) {
            waiter.wait(Some(Duration::from_secs(60))).unwrap();
        }
    }
}

impl Log {
    fn fetch(&self, occasion: &Occasion, clock: &ManualClock) -> Result<Fetched<Coin>, Error> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.occasions.lock().unwrap().push(format!("{occasion:?}"));
        let turn = {
            let mut turns = self.turns.lock().unwrap();
            if turns.len() > 1 { turns.pop_front() } else { turns.front().copied() }
        };
        let second = |seconds| Timestamp::from_second(seconds).ok();
        let now = clock.now().as_second();
        let expires = match turn.unwrap() {
            Turn::Lasts(seconds) => second(now + seconds),
            Turn::EndsAt(seconds) => second(seconds),
            Turn::ForEver => None,
            Turn::Fails => return Err(Error::new(Kind::Failed, "no luck")),
            Turn::Panics => panic!("a bug in the fetch"),
        };
        Ok(Fetched { value: Coin(self.serial.fetch_add(1, Ordering::SeqCst) + 1), expires })
    }
}

#[test]
fn nothing_runs_until_somebody_asks() {
    let mint = Mint::new(&[Turn::ForEver]);
    assert!(mint.cell.current().is_none());
    assert_eq!(mint.runs(), 0);
    assert_eq!((mint.value(), mint.value(), mint.runs()), (1, 1, 1));
    mint.pass(1e9);
    assert_eq!((mint.value(), mint.runs()), (1, 1), "no expiry is for ever");
}

#[test]
fn a_cached_value_is_handed_out_while_every_lock_is_held() {
    let mint = Mint::new(&[Turn::ForEver]);
    mint.value();
    let _pace = keyward_process::lock(&mint.cell.0.backoff);
    let known = || {
        // With the flight's current held as well.
        assert_eq!(mint.cell.current().unwrap().0, 1);
        Some(())
    };
    let _ = mint.cell.0.flight.join_unless(known, |_| {});
}

#[test]
fn a_value_is_good_at_its_very_end_and_not_a_moment_longer() {
    let mint = Mint::new(&[Turn::Lasts(1)]);
    mint.value();
    mint.pass(1.0);
    assert_eq!((mint.value(), mint.runs()), (1, 1));
    mint.pass(0.001);
    assert!(mint.cell.current().is_none());
    assert_eq!((mint.value(), mint.runs()), (2, 2));
}

#[test]
fn a_value_is_renewed_between_three_quarters_and_85_percent_of_its_life() {
    for _ in 0..20 {
        let mint = Mint::new(&[Turn::Lasts(1000)]);
        mint.value();
        mint.pass(749.0);
        assert_eq!(mint.cell.current().unwrap().0, 1);
        mint.settle();
        assert_eq!(mint.runs(), 1);
        mint.pass(102.0);
        // Whether the call that starts the renewal or one after it: the old one is served.
        assert_eq!(mint.cell.current().unwrap().0, 1);
        mint.settle();
        assert_eq!(mint.cell.current().unwrap().0, 2);
        assert_eq!(mint.runs(), 2);
        assert_eq!(mint.occasions()[1], "Ahead");
    }
}

#[test]
fn a_renewal_begins_ten_seconds_before_the_end_at_the_latest() {
    let mint = Mint::new(&[Turn::Lasts(30)]);
    mint.value();
    mint.pass(20.0);
    mint.cell.current().unwrap();
    mint.settle();
    assert_eq!(mint.runs(), 2);
}

#[test]
fn an_idle_cell_runs_nothing() {
    let mint = Mint::new(&[Turn::Lasts(1000)]);
    mint.value();
    mint.pass(999.0);
    mint.settle();
    assert_eq!(mint.runs(), 1);
}

#[test]
fn an_answer_that_ends_no_later_is_asked_for_again_at_half_of_the_rest() {
    let mint = Mint::new(&[Turn::EndsAt(1000)]);
    mint.value();
    mint.pass(900.0);
    let mut at = Vec::new();
    for second in 900..=1000 {
        let before = mint.runs();
        mint.cell.current().unwrap();
        mint.settle();
        if mint.runs() > before {
            at.push(second);
        }
        mint.pass(1.0);
    }
    assert_eq!(at, [900, 950, 975, 988, 994, 997, 999], "about half of the rest each time");
}

#[test]
fn a_failed_renewal_is_not_felt_and_tried_again_at_half_of_the_rest() {
    let mint = Mint::new(&[Turn::Lasts(1000), Turn::Fails, Turn::Fails, Turn::Lasts(1000)]);
    mint.value();
    mint.pass(900.0);
    for _ in 0..100 {
        assert_eq!(mint.cell.current().unwrap().0, 1);
        mint.settle();
    }
    assert_eq!(mint.runs(), 2, "the failure is not repeated for each call");
    mint.pass(50.0);
    assert_eq!(mint.value(), 1);
    mint.settle();
    assert_eq!(mint.runs(), 3);
    mint.pass(50.001);
    assert_eq!(mint.value(), 2, "no back-off: the next call runs");
    assert_eq!(mint.occasions(), ["Needed", "Ahead", "Ahead", "Needed"]);
}

#[test]
fn a_caller_that_joined_a_failing_renewal_gets_a_run_of_its_own() {
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let (go, current) = std::sync::mpsc::channel::<()>();
    let current = Mutex::new(current);
    let now = Arc::clone(&clock);
    let fetch = move |occasion: &Occasion| match occasion {
        Occasion::Ahead => {
            current.lock().unwrap().recv().unwrap();
            Err(Error::new(Kind::NeedsTerminal, "nobody is there"))
        }
        _ => Ok(Fetched { value: Coin(1), expires: Some(now.now() + Duration::from_secs(100)) }),
    };
    let cell = Cell::new(fetch, Arc::clone(&clock) as SharedClock, true);
    cell.value_blocking().unwrap();
    clock.advance(Duration::from_secs(95));
    cell.current().unwrap();
    clock.advance(Duration::from_secs(10));
    let mut asked = Box::pin(cell.value());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(asked.as_mut().poll(&mut context).is_pending(), "on the renewal's flight");
    go.send(()).unwrap();
    assert!(cell.value_blocking().is_ok());
}

#[test]
fn a_failing_fetch_runs_three_times_in_five_seconds_of_fifty_calls() {
    for _ in 0..20 {
        let mint = Mint::new(&[Turn::Fails]);
        for _ in 0..50 {
            let error = mint.cell.value_blocking().unwrap_err();
            assert_eq!(error.to_string(), "no luck");
            mint.pass(0.1);
        }
        assert!((2..=3).contains(&mint.runs()), "{} runs", mint.runs());
    }
}

#[test]
fn a_back_off_grows_to_a_minute_and_ends_with_a_success() {
    let mut turns = vec![Turn::Fails; 10];
    turns.extend([Turn::Lasts(10), Turn::Fails]);
    let mint = Mint::new(&turns);
    for _ in 0..10 {
        mint.cell.value_blocking().unwrap_err();
        mint.pass(72.1);
    }
    assert_eq!(mint.runs(), 10);
    assert_eq!(mint.value(), 1);
    mint.pass(10.1);
    mint.cell.value_blocking().unwrap_err();
    mint.pass(1.3);
    mint.cell.value_blocking().unwrap_err();
    assert_eq!(mint.runs(), 13, "the back-off had begun anew");
}

#[test]
fn a_back_off_does_not_end_by_a_jump_of_the_wall_clock() {
    let mint = Mint::new(&[Turn::Fails]);
    mint.cell.value_blocking().unwrap_err();
    mint.clock.jump(jiff::SignedDuration::from_hours(5));
    mint.cell.value_blocking().unwrap_err();
    assert_eq!(mint.runs(), 1);
}

#[test]
fn a_reset_ends_the_back_off() {
    let mint = Mint::new(&[Turn::Fails, Turn::ForEver]);
    mint.cell.value_blocking().unwrap_err();
    mint.cell.value_blocking().unwrap_err();
    mint.cell.reset();
    assert_eq!((mint.value(), mint.runs()), (1, 2));
}

#[test]
fn a_fetch_that_panics_is_a_failure_like_others() {
    let mint = Mint::new(&[Turn::Panics]);
    for _ in 0..10 {
        assert_eq!(mint.cell.value_blocking().unwrap_err().kind(), Kind::Failed);
    }
    assert_eq!(mint.runs(), 1);
}

#[test]
fn an_answer_that_had_expired_is_served_for_a_back_off() {
    let mint = Mint::new(&[Turn::Lasts(-300)]);
    for _ in 0..50 {
        mint.value();
        mint.pass(0.1);
    }
    assert!((2..=3).contains(&mint.runs()), "{} runs in 5 s", mint.runs());
}

#[test]
fn a_wall_clock_set_back_makes_a_value_good_again() {
    let mint = Mint::new(&[Turn::Lasts(10)]);
    mint.value();
    mint.clock.jump(jiff::SignedDuration::from_secs(20));
    assert!(mint.cell.current().is_none());
    mint.clock.jump(jiff::SignedDuration::from_secs(-15));
    assert_eq!(mint.cell.current().unwrap().0, 1);
}

#[test]
fn a_refused_value_is_forgotten_and_the_response_is_passed_on() {
    let mint = Mint::new(&[Turn::ForEver]);
    let first = mint.value();
    let response = Arc::new(Response { code: 401, header: Vec::new() });
    mint.cell.rejected(first, false, Some(response));
    assert!(mint.cell.current().is_none());
    assert_eq!((mint.value(), mint.runs()), (2, 2));
    let occasions = mint.occasions();
    let rejected = "Rejected { response: Some(Response { code: 401";
    assert!(occasions[1].starts_with(rejected), "{occasions:?}");
}

#[test]
fn a_late_refusal_does_not_evict_the_newer_value() {
    let mint = Mint::new(&[Turn::ForEver]);
    let first = mint.value();
    mint.cell.rejected(first, false, None);
    mint.value();
    mint.pass(1000.0);
    for _ in 0..10 {
        mint.cell.rejected(first, false, None);
    }
    assert_eq!((mint.value(), mint.runs()), (2, 2));
}

#[test]
fn a_server_that_refuses_everything_causes_runs_only_within_the_back_off() {
    let mint = Mint::new(&[Turn::ForEver]);
    for _ in 0..1000 {
        let seen = mint.value();
        mint.cell.rejected(seen, false, None);
        mint.value();
        mint.pass(0.005);
    }
    // The first one, one at once, then after 1 s and 2 s more, each give or take a fifth.
    assert!((4..=5).contains(&mint.runs()), "{} runs in 5 s", mint.runs());
}

#[test]
fn a_refusal_after_a_long_time_is_the_first_again() {
    let mint = Mint::new(&[Turn::ForEver]);
    for _ in 0..10 {
        let seen = mint.value();
        mint.cell.rejected(seen, false, None);
        assert!(mint.cell.current().is_none(), "run at once");
        mint.value();
        mint.pass(200.0);
    }
    assert_eq!(mint.runs(), 11);
}

#[test]
fn a_dropped_question_leaves_the_run_to_the_next_one() {
    let mint = Mint::new(&[Turn::ForEver]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut asked = Box::pin(mint.cell.value());
    let _ = asked.as_mut().poll(&mut context);
    drop(asked);
    assert_eq!((mint.value(), mint.runs()), (1, 1));
}

#[test]
fn a_caller_that_may_block_runs_it_itself_and_others_share_it() {
    let threads = Arc::new(Mutex::new(Vec::new()));
    let (begun, begins) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let (seen, gone) = (Arc::clone(&threads), Mutex::new(gone));
    let fetch = move |_: &Occasion| {
        seen.lock().unwrap().push(std::thread::current().id());
        begun.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        Ok(Fetched { value: Coin(7), expires: None })
    };
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let cell = Cell::new(fetch, clock as SharedClock, true);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| cell.value_blocking().unwrap().0);
        begins.recv().unwrap();
        // Under way already: this one finds a waiter.
        let Ok(waiter) = cell.ask(|_, _, _| panic!("a second run")) else { panic!("a value") };
        assert_eq!(*threads.lock().unwrap(), [first.thread().id()]);
        go.send(()).unwrap();
        assert!(waiter.wait(None).unwrap().result.is_ok());
        assert_eq!(first.join().unwrap(), 7);
    });
    assert_eq!(threads.lock().unwrap().len(), 1);
}
