//! Tests of the program and its families, with the tools they replace as judges.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "eks")]
mod eks;
mod install;
mod program;
