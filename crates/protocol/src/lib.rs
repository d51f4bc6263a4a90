//! What is said between a Kubernetes client and an external credential provider.
//!
//! Messages, the [`Secret`] they carry, and the YAML and JSON [`Node`]s they are read from. No
//! input or output, no runtime: both ends of the talk, `keyward-host` and `keyward-plugin`, stand
//! on this crate and never know each other.

pub mod agent;
pub mod der;
pub mod duration;
pub mod exec;
pub mod image;
pub mod json;
pub mod node;
pub mod pem;
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
