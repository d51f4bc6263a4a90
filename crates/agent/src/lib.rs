//! The agent: one login shared by all processes of a user.
//!
//! `keyward wrap` puts `keyward-exec --` in front of the plugin commands of a kubeconfig and
//! registers each of them (`Registration`). The agent keeps the credentials of registered commands in
//! memory, each under the key of its identity (`Selected`), and returns them to every process that
//! asks for the same identity.
//!
//! - [`Address`]: where the agent's socket is.
//! - `connect_or_start`, `obtain`: how a program asks the agent; they need no feature.
//! - `Server`, with the feature `server`: the agent itself, one loop on one thread. Plugins run on the
//!   threads that `keyward-host` keeps. The program `keyward-agent` is nothing more.
//!
//! - [`store`], with the feature of that name: named secrets that processes share through the agent.
//!
//! Clients and the agent exist on Linux only; elsewhere `keyward-exec` runs the plugin itself.

#[cfg(unix)]
mod address;
#[cfg(target_os = "linux")]
mod client;
#[cfg(all(feature = "server", unix))]
pub mod identity;
#[cfg(target_os = "linux")]
mod obtain;
#[cfg(all(feature = "server", unix))]
mod record;
#[cfg(all(feature = "server", unix))]
pub mod registration;
#[cfg(all(feature = "server", target_os = "linux"))]
mod server;
#[cfg(target_os = "linux")]
mod start;
#[cfg(feature = "store")]
pub mod store;
#[cfg(all(feature = "server", unix))]
pub mod wrap;

#[cfg(unix)]
pub use self::address::{Address, Unusable, is_off};
#[cfg(all(feature = "server", target_os = "linux"))]
pub use self::server::{CannotStart, End, ServeOptions, Server, Settings, Stopper, ready, serve};
#[cfg(target_os = "linux")]
pub use self::{
    client::{AgentProcess, Client, PATIENCE, Unreachable, until_answered},
    obtain::{Obtained, Ran, obtain, obtain_by, run_here, terminal},
    start::connect_or_start,
};
