//! The time, for the server and its authority. They stand for other machines, which have a clock of their own:
//! the product's clock, held still by a test, does not stop theirs.

use std::time::SystemTime;

/// The wall clock.
#[expect(clippy::disallowed_methods, reason = "the one place of the server that asks")]
pub fn now() -> SystemTime {
    SystemTime::now()
}
