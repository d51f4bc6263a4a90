//! The clock of the server and its authority. They play other machines, which have their own clock:
//! when a test stops the product's clock, theirs goes on.

use std::time::SystemTime;

/// The wall clock.
#[expect(clippy::disallowed_methods, reason = "the one place of the server that asks")]
pub fn now() -> SystemTime {
    SystemTime::now()
}
