//! One value of a cell: until when it is good, and when it is renewed.
//!
//! A renewal is due
//!
//! - after 80 % of the lifetime, give or take 5 %, and at the latest 10 s before the end (`MARGIN`);
//! - after half of a lifetime under 20 s, which has no room for that margin;
//! - after half of the rest, if the value ends no later than the one before it;
//! - after half of the rest, and at the latest after ten minutes (`RETRY`), if a renewal has failed;
//! - not at all, if less than 2 s are left (`SHORTEST`): the call after the end waits then.
//!
//! Values without an end are not renewed, nor are those that had expired when they came.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;

use super::{CacheValue, Fetched, backoff::jitter};
use crate::ThreadCopies;
use keyward_process::clock::Clock;

/// A value with the times that matter for it, in copies.
pub(super) struct Entry<T> {
    copies: ThreadCopies<T>,
    pub(super) serial: u64,
    /// From when on a call has more to do than to hand it out; wall-clock milliseconds. Never later
    /// than the first moment after the end, so until then the value is good.
    due: AtomicI64,
    /// The last moment it is good; `i64::MAX` is forever.
    end: i64,
    /// Set if the value had already expired on arrival: served until this point of the monotonic
    /// clock.
    borrowed: Option<Duration>,
}

/// A renewal begins at the latest this long before the end.
const MARGIN: i64 = 10_000;
/// A remaining time not worth another renewal; the call after the end waits then.
const SHORTEST: i64 = 2_000;
/// After a failed renewal the next one is tried within this.
const RETRY: i64 = 600_000;

impl<T: CacheValue> Entry<T> {
    /// A value that came at `now`, after `old`.
    pub(super) fn new(fresh: &Fetched<T>, now: i64, ahead: bool, old: Option<&Self>) -> Self {
        let end = fresh.expires.map_or(i64::MAX, Timestamp::as_millisecond);
        let no_later = old.is_some_and(|old| end <= old.end);
        let renewal = if !ahead || end == i64::MAX {
            None
        } else if no_later {
            half_of_rest(end, now)
        } else {
            fraction_of_lifetime(end, now)
        };
        Self::with(&fresh.value, end, renewal, None)
    }

    /// A value that had expired when it came, served until `until` by the monotonic clock.
    pub(super) fn expired(fresh: &Fetched<T>, until: Duration) -> Self {
        Self::with(&fresh.value, i64::MIN, Some(i64::MIN), Some(until))
    }

    fn with(value: &T, end: i64, renewal: Option<i64>, borrowed: Option<Duration>) -> Self {
        Self {
            copies: ThreadCopies::new(|| value.copy()),
            serial: value.serial(),
            due: AtomicI64::new(renewal.unwrap_or(i64::MAX).min(after(end))),
            end,
            borrowed,
        }
    }
}

impl<T> Entry<T> {
    #[inline]
    pub(super) fn due(&self) -> i64 {
        self.due.load(Ordering::Relaxed)
    }

    /// The copy of this thread.
    #[inline]
    pub(super) fn copy(&self) -> Arc<T> {
        self.copies.mine()
    }

    /// Whether it may be handed out: up to its end and including it.
    pub(super) fn is_good(&self, now: i64, clock: &dyn Clock) -> bool {
        match self.borrowed {
            None => now <= self.end,
            Some(until) => clock.elapsed() < until,
        }
    }

    /// Whether it is this caller that has to renew it; one is told so for each due time.
    pub(super) fn claim_renewal(&self, now: i64) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        self.borrowed.is_none()
            && now >= due
            && self
                .due
                .compare_exchange(due, after(self.end), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// A renewal has failed: the next one comes at half of the remaining time, or sooner.
    pub(super) fn postpone_renewal(&self, now: i64) {
        if self.borrowed.is_none()
            && let Some(half) = half_of_rest(self.end, now)
        {
            self.due.store(half.min(now + RETRY), Ordering::Relaxed);
        }
    }
}

/// 80 % of the lifetime, give or take 5 % of it, at the latest 10 s before the end; half of a
/// lifetime under 20 s.
fn fraction_of_lifetime(end: i64, now: i64) -> Option<i64> {
    let life = end.saturating_sub(now);
    if life < 2 * MARGIN {
        return half_of_rest(end, now);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "a float is exact enough for a moment that is chosen at random"
    )]
    let most = (life as f64 * (0.80 + jitter(0.05))) as i64;
    Some((now + most).min(end - MARGIN))
}

fn half_of_rest(end: i64, now: i64) -> Option<i64> {
    let rest = end.saturating_sub(now);
    (rest >= SHORTEST).then_some(now + rest / 2)
}

/// The first moment after the end.
fn after(end: i64) -> i64 {
    end.saturating_add(1)
}
