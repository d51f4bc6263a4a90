//! One run per question: callers that come meanwhile share its result, good or bad.

use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

/// At most one run under way, and everybody who waits for it.
pub struct Flight<T>(PhantomData<T>);

/// A place in a flight: a future of no particular runtime, or a blocking wait.
pub struct Seat<T>(PhantomData<T>);

/// The right, and the duty, to end a flight. Dropped without a result (a panic), everybody gets
/// the flight's fallback instead of waiting for ever.
pub struct Landing<T>(PhantomData<T>);

impl<T: Clone + Send + 'static> Flight<T> {
    /// A flight with nobody on it. `lost` is the result when a run dies without one.
    pub fn new(_lost: fn() -> T) -> Self {
        todo!()
    }

    /// Joins the run under way, or starts one: `start` gets the landing and hands it to a thread.
    pub fn board(&self, _start: impl FnOnce(Landing<T>)) -> Seat<T> {
        todo!()
    }
}

impl<T> Landing<T> {
    /// Ends the flight with a result for everybody on it.
    pub fn land(self, _result: T) {
        todo!()
    }
}

impl<T> Seat<T> {
    /// Blocks until the result is there, at most this long.
    pub fn wait(self, _limit: Option<Duration>) -> Option<T> {
        todo!()
    }
}

impl<T> Future for Seat<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<T> {
        todo!()
    }
}
