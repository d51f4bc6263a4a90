//! Waits in tests, which fail rather than hang.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Looks until there is something to return.
///
/// # Panics
///
/// After `limit`, with what `failure` says.
#[expect(clippy::disallowed_methods, reason = "a guard against hanging")]
pub(crate) fn until<T>(
    limit: Duration,
    failure: impl Fn() -> String,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < limit, "{}", failure());
        thread::sleep(Duration::from_millis(1));
    }
}
