//! Puts external Kubernetes credentials on real connections.

mod body;
mod connect;
mod error;
pub mod identity;
mod incoming;
mod origin;
mod pool;

pub use body::{Body, Replay};
pub use error::{Error, Kind};
pub use incoming::Incoming;
pub use origin::Origin;
