//! Real parts for the workspace's own tests, for `keyward demo` and for the benchmarks: a TLS API
//! server that demands and checks credentials, a throw-away certificate authority, an issuer with its plugin, local proxies.

pub mod authority;
pub mod chance;
mod clock;
mod error;
#[cfg(unix)]
pub mod filekey;
#[cfg(unix)]
pub mod issuer;
pub mod kubectl;
#[cfg(unix)]
pub mod misbehaviour;
#[cfg(target_os = "linux")]
pub mod orphans;
pub mod plugin;
pub mod proxy;
#[cfg(target_os = "linux")]
pub mod pty;
#[cfg(unix)]
pub mod script;
pub mod server;
#[cfg(unix)]
pub mod signer;

pub use error::Error;
