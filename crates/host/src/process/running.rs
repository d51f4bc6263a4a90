use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use super::{Abandoned, Failure, Invocation, Left, Output, Stop, run, spawn};
use crate::flight::{Flight, Seat};

/// Starts the program on a kept thread.
pub fn start(invocation: Invocation) -> Running {
    let stop = Stop::default();
    let kill = invocation.abandoned == Abandoned::Kill;
    let flight = Flight::new(|| parcel(Err(Failure::Stopped(Left::default()))));
    let seat = flight.board(|landing| {
        if kill {
            let stop = stop.clone();
            landing.when_abandoned(move || stop.call());
        }
        let stop = stop.clone();
        spawn(move || {
            let result = run(&invocation, &stop);
            landing.land(parcel(result));
        });
    });
    Running { seat, stop }
}

/// A program under way, and one who waits for it: a future of no particular runtime, or a blocking
/// wait. Dropped early, the invocation's [`Abandoned`] says what becomes of the program.
#[must_use = "dropped, nobody waits for the program"]
pub struct Running {
    seat: Seat<Parcel>,
    stop: Stop,
}

impl Running {
    /// What ends the run early.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Blocks until the program has ended, at most for `limit`; `None` when that was not enough.
    pub fn wait(self, limit: Option<Duration>) -> Option<Result<Output, Failure>> {
        self.seat.wait(limit).map(|parcel| unpack(&parcel))
    }
}

impl Future for Running {
    type Output = Result<Output, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let parcel = ready!(Pin::new(&mut self.seat).poll(context));
        Poll::Ready(unpack(&parcel))
    }
}

/// A flight's result goes to many; this one has a single seat, so what it gets is whole.
type Parcel = Arc<Mutex<Option<Result<Output, Failure>>>>;

fn parcel(result: Result<Output, Failure>) -> Parcel {
    Arc::new(Mutex::new(Some(result)))
}

fn unpack(parcel: &Parcel) -> Result<Output, Failure> {
    let mut content = parcel.lock().unwrap_or_else(PoisonError::into_inner);
    content.take().unwrap_or_else(|| Err(Failure::Stopped(Left::default())))
}
