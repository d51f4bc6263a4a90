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
pub mod exec;
pub mod flight;
pub mod image;
pub mod kubeconfig;
pub mod observer;
pub mod pair;
pub mod plan;
pub mod process;
pub mod rules;
pub mod source;
pub mod surroundings;

pub use credential::Credential;
pub use error::{Error, Kind};
pub use kubeconfig::{Kubeconfig, Overrides, Target};
pub use plan::Plan;
pub use source::{Source, Sources};
pub use surroundings::Surroundings;
