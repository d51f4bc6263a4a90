//! Puts external Kubernetes credentials on real connections.

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
