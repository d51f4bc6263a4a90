//! `keyward proxy`, with real clients before it and the testing server behind it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod kubectl;
mod stage;
