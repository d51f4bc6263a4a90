//! Runs external credential providers: from a kubeconfig to a credential in memory.
//!
//! ```text
//! kubeconfig ──► Target ──► Plan ──► Invocation ──► Answer ──► Fresh ──► Arc<Credential>
//!           resolve    plan     ask            run        read      keep
//! ```
//!
//! One noun is one type, one verb one function, each in the file of that name.

pub mod cell;
pub mod clock;
mod credential;
mod error;
mod exec;
pub mod flight;
mod given;
pub mod image;
pub mod kubeconfig;
mod mask;
pub mod observer;
pub mod oidc;
pub mod pair;
pub mod plan;
pub mod process;
pub mod rules;
pub mod source;
pub mod surroundings;

pub use credential::Credential;
pub use error::{Error, Kind};
pub use kubeconfig::{Kubeconfig, Overrides, Target};
pub use plan::{Draft, Plan};
pub use source::{Source, Sources};
pub use surroundings::Surroundings;
