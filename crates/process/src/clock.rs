//! Time, from a clock that tests hold in their hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
#[cfg(target_os = "linux")]
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Tells the time. Everything in this crate that asks for it asks here.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock milliseconds since 1970: expiry is compared with this. Coarse (a few
    /// milliseconds) and cheap: it is read for every request.
    fn wall_millis(&self) -> i64;

    /// Time since some fixed moment, never going back: backoff and budgets are measured with this.
    fn elapsed(&self) -> Duration;

    /// The wall clock as a timestamp.
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.wall_millis()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// A clock that many share.
pub type SharedClock = Arc<dyn Clock>;

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// Straight from the kernel's shared page: no system call, no calibration.
#[cfg(target_os = "linux")]
impl Clock for SystemClock {
    #[inline]
    fn wall_millis(&self) -> i64 {
        let time = clock_gettime(ClockId::RealtimeCoarse);
        time.tv_sec * 1000 + time.tv_nsec / 1_000_000
    }

    #[inline]
    fn elapsed(&self) -> Duration {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
        Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the time")]
impl Clock for SystemClock {
    fn wall_millis(&self) -> i64 {
        use std::time::SystemTime;

        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        use std::{sync::OnceLock, time::Instant};

        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// A clock that stands still until it is told to go on. For tests, of users of this crate too.
///
/// ```
/// # use std::time::Duration;
/// # use keyward_process::clock::{Clock, ManualClock};
/// let clock = ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap());
/// clock.advance(Duration::from_secs(90));
/// assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
/// assert_eq!(clock.elapsed(), Duration::from_secs(90));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    wall: AtomicI64,
    elapsed: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { wall: AtomicI64::new(now.as_millisecond()), elapsed: AtomicU64::new(0) }
    }

    /// Lets time pass: both hands go on.
    pub fn advance(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.wall.fetch_add(millis, Ordering::SeqCst);
        self.elapsed.fetch_add(nanos, Ordering::SeqCst);
    }

    /// Sets the wall clock forward or back, as a person or a time server does; no time passes.
    pub fn jump(&self, by: SignedDuration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or_default();
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall_millis(&self) -> i64 {
        self.wall.load(Ordering::SeqCst)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_agrees_with_the_standard_library() {
        #[expect(clippy::disallowed_methods, reason = "the reference to compare with")]
        let truth = Timestamp::now().as_millisecond();
        let ours = SystemClock.wall_millis();
        assert!((truth - ours).abs() < 5_000, "{truth} and {ours}");
        let first = SystemClock.elapsed();
        assert!(SystemClock.elapsed() >= first);
    }

    #[test]
    fn a_jump_moves_the_wall_clock_alone() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        clock.advance(Duration::from_secs(10));
        clock.jump(SignedDuration::from_secs(-4));
        assert_eq!(clock.wall_millis(), 6_000);
        assert_eq!(clock.elapsed(), Duration::from_secs(10));
    }
}
