//! Real parts for the workspace's own tests, for the benchmarks: a TLS API
//! server that demands and checks credentials, a temporary certificate authority, an issuer with its plugin, local proxies.

pub mod chance;
pub mod kubectl;
pub mod log;
#[cfg(unix)]
pub mod misbehaviour;
pub mod nodes;
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
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod wait;

use keyward_demo::clock;
pub use keyward_demo::{Error, authority};
#[cfg(unix)]
pub use keyward_demo::{filekey, issuer};
