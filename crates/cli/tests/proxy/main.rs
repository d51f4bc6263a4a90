//! `keyward proxy`, with real clients before it and the testing server behind it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod command;
mod contexts;
mod framing;
mod fuzz;
mod heal;
mod http2;
mod kubectl;
mod limits;
mod metrics;
mod own;
mod refusal;
mod reload;
mod service;
mod signer;
mod soak;
mod stage;
mod status;
mod stream;
mod strict;
mod umask;
mod upgrade;
mod upstream;
mod wire;
