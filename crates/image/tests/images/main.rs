//! Image credentials with real providers: shell scripts that count their runs.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod providers;
mod stage;
mod tokens;
