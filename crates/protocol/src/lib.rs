//! The protocols between Kubernetes clients and external credential providers.
//!
//! Messages, the [`Secret`]s in them, and the YAML and JSON [`Node`]s they are parsed from. No I/O and no
//! runtime: both ends, `keyward-host` and `keyward-plugin`, build on this crate and do not know each
//! other.

pub mod agent;
pub mod der;
pub mod docker;
pub mod duration;
pub mod exec;
pub mod image;
pub mod json;
pub mod jwt;
pub mod node;
pub mod pem;
pub mod prometheus;
mod secret;
pub mod signer;
pub mod text;
pub mod time;
pub mod url;
mod version;
pub mod x509;

pub use node::Node;
pub use secret::Secret;
pub use url::Url;

/// The example of the README, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
