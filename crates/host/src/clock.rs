//! Time, from a clock that tests hold in their hand.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

/// Tells the time. Everything in this crate that asks for it asks here.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock milliseconds since 1970: expiry is compared with this. Coarse (a few
    /// milliseconds) and cheap: it is read for every request.
    fn wall_millis(&self) -> i64;

    /// Time since some fixed moment, never going back: back-off and budgets are measured with this.
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

/// A clock that stands still until it is told to go on. For tests, of users of this crate too.
#[derive(Debug, Default)]
pub struct HandClock;
