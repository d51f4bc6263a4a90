//! How often may be asked again: after failures, expired answers and rejections.

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
pub(super) struct Backoff {
    /// Runs in a row that brought nothing good.
    failures: u32,
    /// What callers get until the backoff is over.
    error: Option<(Error, Duration)>,
    rejections: Rejections,
}

#[derive(Default)]
struct Rejections {
    /// Values in a row that were rejected soon after they came.
    streak: u32,
    /// A rejected value is kept until then.
    until: Duration,
    /// Immediate refreshes of values that were accepted before they were rejected.
    allowance: Allowance,
    /// A value was rejected and has not been replaced yet: why the next run happens.
    pending: Option<Occasion>,
}

/// Limits refreshes to one a second on average, in bursts of up to a minute's worth.
#[derive(Default)]
struct Allowance {
    /// When everything taken so far is paid back.
    paid_back: Duration,
}

impl Allowance {
    const EVERY: Duration = Duration::from_secs(1);
    const BURST: Duration = Duration::from_secs(60);

    fn take(&mut self, now: Duration) -> bool {
        let after = self.paid_back.max(now) + Self::EVERY;
        let allowed = after <= now + Self::BURST;
        if allowed {
            self.paid_back = after;
        }
        allowed
    }
}

/// The longest backoff; and how long a value has to work after one before a rejection counts as the
/// first again.
const LONGEST: Duration = Duration::from_secs(60);

impl Backoff {
    /// The error callers get instead of a run.
    pub(super) fn error(&self, now: Duration) -> Option<Error> {
        let (error, until) = self.error.as_ref()?;
        (now < *until).then(|| error.clone())
    }

    /// Why the next run happens.
    pub(super) fn occasion(&self) -> Occasion {
        self.rejections.pending.clone().unwrap_or(Occasion::Needed)
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

    /// A server rejected the current value; returns whether to forget it.
    ///
    /// A value that the server had accepted before was revoked, so a new one helps, and at once. A
    /// server that accepts and rejects in turn gets an average of one run a second out of us.
    pub(super) fn reject(
        &mut self,
        now: Duration,
        was_accepted: bool,
        response: Option<Arc<Response>>,
    ) -> bool {
        let rejections = &mut self.rejections;
        let revoked = was_accepted && rejections.allowance.take(now);
        if now < rejections.until && !revoked {
            return false;
        }
        if was_accepted || now >= rejections.until + LONGEST {
            rejections.streak = 0;
        }
        rejections.streak = rejections.streak.saturating_add(1);
        rejections.pending = Some(Occasion::Rejected { response, was_accepted });
        true
    }

    fn replace(&mut self, now: Duration) {
        self.error = None;
        if self.rejections.pending.take().is_some() {
            self.rejections.until = now + delay(self.rejections.streak);
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
    fn a_value_that_was_accepted_is_replaced_at_once_however_soon_it_is_refused() {
        let mut backoff = Backoff::default();
        for round in 0..30 {
            assert!(backoff.reject(Duration::ZERO, round > 0, None), "round {round}");
            backoff.succeed(Duration::ZERO);
        }
        assert!(!backoff.reject(Duration::ZERO, false, None), "this one was never accepted");
    }

    #[test]
    fn a_server_that_accepts_and_refuses_in_turn_causes_one_run_a_second_on_average() {
        let mut backoff = Backoff::default();
        let mut runs = 0;
        for millis in (0..600_000).step_by(20) {
            let now = Duration::from_millis(millis);
            if backoff.reject(now, true, None) {
                runs += 1;
                backoff.succeed(now);
            }
        }
        // A minute's worth in a burst, then one a second; where the two limits overlap, a few more.
        assert!((600..=1300).contains(&runs), "{runs} runs in ten minutes");
    }

    #[test]
    fn delays_differ() {
        let first = delay(7);
        assert!((0..20).any(|_| delay(7) != first));
    }
}
