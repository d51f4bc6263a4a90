//! `keyward-exec` and the agent, as processes: what kubectl would start, and what it would get.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests start programs and fail by panicking"
)]

mod again;
mod crash;
mod ends;
mod foreign;
mod handover;
mod identity;
mod lease;
mod library;
mod many;
mod metrics;
mod night;
mod off;
mod ordinary;
mod places;
mod search;
mod secrecy;
mod shared;
mod stage;
mod verify;
mod versions;
