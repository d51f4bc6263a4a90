//! Tests of the program and its families, with the tools they replace as judges.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(all(feature = "acr", feature = "entra", target_os = "linux"))]
mod acr;
#[cfg(feature = "ecr")]
mod ecr;
#[cfg(all(feature = "ecr", feature = "go-judges"))]
mod ecr_tools;
#[cfg(feature = "eks")]
mod eks;
#[cfg(all(feature = "entra", target_os = "linux"))]
mod entra;
#[cfg(all(feature = "exchange", feature = "oidc", target_os = "linux"))]
mod exchange;
#[cfg(all(feature = "google", target_os = "linux"))]
mod google;
mod install;
#[cfg(any(feature = "aws", feature = "azure", feature = "google"))]
mod judge;
#[cfg(feature = "kms")]
mod kms;
#[cfg(feature = "eks")]
mod kubectl;
#[cfg(all(
    feature = "acr",
    feature = "ecr",
    feature = "entra",
    feature = "gar",
    target_os = "linux"
))]
mod migrate;
#[cfg(all(feature = "ecr", feature = "eks", feature = "oidc", target_os = "linux"))]
mod native;
#[cfg(all(feature = "oidc", target_os = "linux"))]
mod oidc;
#[cfg(feature = "kms")]
mod openssl;
mod pitfalls;
mod program;
#[cfg(all(
    feature = "exchange",
    feature = "kms",
    feature = "oidc",
    feature = "spiffe",
    target_os = "linux"
))]
mod spiffe;
#[cfg(feature = "aws")]
mod stage;
#[cfg(any(feature = "aws", feature = "google"))]
mod tls;
#[cfg(all(feature = "eks", feature = "go-judges"))]
mod verifier;
