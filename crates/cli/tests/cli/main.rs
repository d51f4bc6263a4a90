//! The real program with real plugins in real directories.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

#[cfg(target_os = "linux")]
mod completions;
mod credential;
mod demo;
mod doctor;
mod frictions;
mod general;
mod get;
mod image;
#[cfg(target_os = "linux")]
mod orphans;
mod plan;
#[cfg(target_os = "linux")]
mod signer;
mod stage;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(target_os = "linux")]
mod unit;
mod whoami;
mod wrap;
