//! How often may be asked again: after failures, expired answers and refusals.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use keyward_protocol::exec::Response;

use super::Occasion;
use crate::Error;

/// What is remembered between runs. All moments are of the monotonic clock.
#[derive(Default)]
pub(super) struct Pace {
    /// Runs in a row that brought nothing good.
    failures: u32,
    /// What callers get until the back-off is over.
    error: Option<(Error, Duration)>,
    refusals: Refusals,
}

#[derive(Default)]
struct Refusals {
    /// Values in a row that were refused soon after they came.
    streak: u32,
    /// A refused value is kept until then.
    until: Duration,
    /// A value was refused and has not been replaced yet.
    pending: Option<Refusal>,
}

/// What the server said, where that is known.
struct Refusal(Option<Arc<Response>>);

/// The longest back-off; and how long a value has to work after one before a refusal counts as the
/// first again.
const LONGEST: Duration = Duration::from_secs(60);

impl Pace {
    /// The error callers get instead of a run.
    pub(super) fn error(&self, now: Duration) -> Option<Error> {
        let (error, until) = self.error.as_ref()?;
        (now < *until).then(|| error.clone())
    }

    /// Why the next run happens.
    pub(super) fn occasion(&self) -> Occasion {
        match &self.refusals.pending {
            Some(Refusal(response)) => Occasion::Refused(response.clone()),
            None => Occasion::Needed,
        }
    }

    /// A run that somebody waited for failed.
    pub(super) fn fail(&mut self, now: Duration, error: &Error) {
        self.failures = self.failures.saturating_add(1);
        self.error = Some((error.clone(), now + delay(self.failures)));
    }

    /// A run brought a good value.
    pub(super) fn succeed(&mut self, now: Duration) {
        self.failures = 0;
        self.replace(now);
    }

    /// A run brought a value that had expired; returns how long it is served.
    pub(super) fn expired(&mut self, now: Duration) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.replace(now);
        delay(self.failures)
    }

    /// A server refused the current value; returns whether to forget it.
    pub(super) fn refuse(&mut self, now: Duration, response: Option<Arc<Response>>) -> bool {
        let refusals = &mut self.refusals;
        if now < refusals.until {
            return false;
        }
        if now >= refusals.until + LONGEST {
            refusals.streak = 0;
        }
        refusals.streak = refusals.streak.saturating_add(1);
        refusals.pending = Some(Refusal(response));
        true
    }

    /// A server took the value that replaced a refused one, so that one was to blame. The next
    /// refusal is the first again; a server that takes and refuses in turn still gets no more than
    /// one run a second out of us.
    pub(super) fn accept(&mut self, now: Duration) {
        let refusals = &mut self.refusals;
        refusals.streak = 0;
        refusals.until = refusals.until.min(now + delay(1));
    }

    fn replace(&mut self, now: Duration) {
        self.error = None;
        if self.refusals.pending.take().is_some() {
            self.refusals.until = now + delay(self.refusals.streak);
        }
    }
}

/// 1 s, doubling to 60 s, give or take 20 %.
fn delay(times: u32) -> Duration {
    let seconds = 1_u64 << times.saturating_sub(1).min(6);
    let delay = Duration::from_secs(seconds).min(LONGEST);
    delay.mul_f64(1.0 + jitter(0.2))
}

/// A random number between `-spread` and `spread`.
pub(super) fn jitter(spread: f64) -> f64 {
    // Each state is seeded differently, which is all the randomness that pacing needs.
    let random = RandomState::new().hash_one(()) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    let unit = random as f64 / (1_u64 << 53) as f64;
    (unit * 2.0 - 1.0) * spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_to_a_minute_give_or_take_a_fifth() {
        for (times, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (500, 60.0)] {
            for _ in 0..50 {
                let delay = delay(times).as_secs_f64();
                assert!((seconds * 0.8..=seconds * 1.2).contains(&delay), "{times}: {delay}");
            }
        }
    }

    #[test]
    fn values_that_are_taken_in_between_keep_refusals_from_adding_up() {
        let second = Duration::from_millis(1200);
        let mut now = Duration::ZERO;
        let mut pace = Pace::default();
        for round in 0..20 {
            assert!(pace.refuse(now, None), "round {round}");
            pace.succeed(now);
            pace.accept(now);
            assert!(!pace.refuse(now, None), "no second run in the same moment");
            now += second;
        }
    }

    #[test]
    fn delays_differ() {
        let first = delay(7);
        assert!((0..20).any(|_| delay(7) != first));
    }
}
