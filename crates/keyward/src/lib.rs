//! Puts external Kubernetes credentials on real connections.
//!
//! ```text
//! Source ──► Arc<Credential> ──► header ─────────────────► request ──► response
//!    ▲                     └───► Generation: handshake + pool ┘            │
//!    └───────────────────────── refused ◄──────────────────── 401 ◄───────┘
//! ```
//!
//! - [`Client`] is all of it: from a kubeconfig to responses in three lines.
//! - [`bearer::Layer`] puts the header on the requests of any tower service, renews a credential
//!   that was refused and sends the request again.
//! - [`identity::Trust`] makes rustls configurations: whom to believe, what to show.
//!
//! A token that changes goes into the next request's header. A certificate that changes begins a new
//! generation: a TLS configuration, a session store and connections of its own. The old generation
//! is dropped, which lets what is open finish and closes the rest. Nothing of it needs a restart,
//! and a credential goes to the one server it is for.
//!
//! Cryptography is `ring` unless the feature of that name is off; `aws-lc-rs` is a feature too, and
//! [`client::Builder::provider`] takes any other.

pub mod bearer;
mod body;
pub mod client;
mod connect;
mod error;
mod generation;
pub mod identity;
mod incoming;
pub mod oidc;
mod origin;
mod pool;

pub use body::{Body, Replay};
pub use client::Client;
pub use error::{Error, Kind};
pub use incoming::Incoming;
pub use origin::Origin;
