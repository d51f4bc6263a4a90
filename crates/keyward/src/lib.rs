//! HTTPS connections to Kubernetes with external credentials.
//!
//! ```text
//! Source ──► Arc<Credential> ──► header ─────────────────► request ──► response
//!    ▲                     └───► Generation: handshake + pool ┘            │
//!    └───────────────────────── rejected ◄─────────────────── 401 ◄───────┘
//! ```
//!
//! - [`Client`] is all of it: from a kubeconfig to responses in three lines. A plugin that calls the
//!   cluster of its request uses [`Client::from_exec_info`].
//! - [`bearer::Layer`] puts the header on the requests of any tower service, renews a credential
//!   that was rejected and sends the request again.
//! - [`tls::Trust`] makes rustls configurations: which servers to trust, which certificate to show.
//!
//! With the feature `agent`, `agent::Agent` shares plugin runs and logins with kubectl and other programs.
//!
//! A token that changes goes into the next request's header. A certificate that changes begins a new
//! generation: a TLS configuration, a session store and connections of its own. The old generation is
//! dropped, which closes its idle connections and lets open requests finish. No restart is needed, and
//! a credential goes only to its own server.
//!
//! Cryptography is `ring` unless the feature of that name is off; `aws-lc-rs` is a feature too, and
//! [`client::Builder::provider`] takes any other.

#[cfg(feature = "agent")]
pub mod agent;
pub mod bearer;
mod body;
pub mod client;
mod connect;
mod error;
mod generation;
mod incoming;
pub mod oidc;
mod origin;
mod pool;
mod review;
pub mod tls;

pub use body::{Body, Replay};
pub use client::Client;
pub use error::{Error, Kind};
pub use incoming::Incoming;
pub use origin::Origin;
pub use review::self_subject_reviews;

/// The example of the README, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The code on the page for plugin authors. It is compiled here because part of it needs this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/plugin-authors.md")]
struct PluginAuthors;
