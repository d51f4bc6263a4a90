//! The parts of `keyward demo`, which the workspace's tests also use: a TLS API server that demands
//! and checks credentials, its certificate authority, an issuer of credentials, and a plugin and a
//! signer that get them.
//!
//! ```
//! use keyward_demo::server::{Server, User};
//!
//! let server = Server::setup().start()?;
//! server.users().token("a-token", User::new("anna").group("dev"));
//! assert!(server.url().starts_with("https://127.0.0.1:"));
//! # Ok::<(), keyward_demo::Error>(())
//! ```

pub mod authority;
pub mod clock;
mod error;
#[cfg(unix)]
pub mod filekey;
#[cfg(unix)]
pub mod issuer;
pub mod server;

pub use error::Error;
