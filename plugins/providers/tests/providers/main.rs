//! Tests of the program and its families, with the tools they replace as judges.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "ecr")]
mod ecr;
#[cfg(all(feature = "ecr", feature = "go-judges"))]
mod ecr_tools;
#[cfg(feature = "eks")]
mod eks;
mod install;
#[cfg(feature = "aws")]
mod judge;
#[cfg(feature = "eks")]
mod kubectl;
#[cfg(all(feature = "oidc", target_os = "linux"))]
mod oidc;
mod program;
#[cfg(feature = "aws")]
mod stage;
#[cfg(feature = "aws")]
mod tls;
#[cfg(all(feature = "eks", feature = "go-judges"))]
mod verifier;
