//! The steps, one file each, in order. To add one, add a file, an entry here, and a [`Promise`] for
//! each line it prints.

mod agent;
mod certificate;
mod crowd;
mod expiry;
mod fail;
mod first;
mod hang;
mod images;
mod plan;
mod revoked;
mod signer;
mod softhsm;

use std::{pin::Pin, time::Duration};

use keyward_process::clock::{Clock, SystemClock};

use super::{
    promise::Promise,
    report::{Report, rounded},
    scene::Scene,
};
use crate::{failure::Failure, output::count};

/// A part of the demo, independent of the other steps.
pub(super) struct Step {
    /// The promises that the step shows, one line each.
    pub(super) promises: &'static [Promise],
    /// Runs the step.
    pub(super) run: for<'a> fn(&'a Scene, &'a mut Report) -> Running<'a>,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

pub(super) const ALL: &[Step] = &[
    Step { promises: &[Promise::Plan], run: |s, r| Box::pin(plan::run(s, r)) },
    Step { promises: &[Promise::Door, Promise::First], run: |s, r| Box::pin(first::run(s, r)) },
    Step { promises: &[Promise::Crowd], run: |s, r| Box::pin(crowd::run(s, r)) },
    Step { promises: &[Promise::Expiry], run: |s, r| Box::pin(expiry::run(s, r)) },
    Step { promises: &[Promise::Revoked], run: |s, r| Box::pin(revoked::run(s, r)) },
    Step {
        promises: &[Promise::Watch, Promise::Identity],
        run: |s, r| Box::pin(certificate::run(s, r)),
    },
    Step { promises: &[Promise::Deadline, Promise::Budget], run: |s, r| Box::pin(hang::run(s, r)) },
    Step {
        promises: &[Promise::Backoff, Promise::Recovery],
        run: |s, r| Box::pin(fail::run(s, r)),
    },
    Step { promises: &[Promise::Images, Promise::Switch], run: |s, r| Box::pin(images::run(s, r)) },
    Step { promises: &[Promise::Signer], run: |s, r| Box::pin(signer::run(s, r)) },
    Step { promises: &[Promise::Softhsm], run: |s, r| Box::pin(softhsm::run(s, r)) },
    Step { promises: &[Promise::Agent], run: |s, r| Box::pin(agent::run(s, r)) },
];

/// A stopwatch.
struct Watch(Duration);

impl Watch {
    fn start() -> Self {
        Self(SystemClock.elapsed())
    }

    fn time(&self) -> Duration {
        SystemClock.elapsed().saturating_sub(self.0)
    }

    fn seconds(&self) -> f64 {
        self.time().as_secs_f64()
    }

    fn millis(&self) -> f64 {
        (self.seconds() * 1e4).round() / 10.0
    }
}

/// Waits between two requests of a longer step.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Whether something is seen before the limit is over, looking again and again.
async fn seen_within(
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let watch = Watch::start();
    while watch.time() < limit {
        if look().await? {
            return Ok(true);
        }
        pause().await;
    }
    Ok(false)
}
