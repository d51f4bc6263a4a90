//! The time, for the testing parts. They stand for other machines, which have a clock of their own:
//! the product's clock, held still by a test, does not stop theirs.

use std::time::SystemTime;

/// The wall clock.
#[expect(clippy::disallowed_methods, reason = "the one place of the testing server that asks")]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
