//! Reads kubeconfig files: our own reader, because an error must say file, line, user and field.
//!
//! ```text
//! files ──► Kubeconfig (one each) ──► Kubeconfig ──► Target
//!     decode                    merge         resolve
//! ```

mod check;
mod decode;
mod field;
mod flatten;
mod incluster;
mod lines;
mod load;
mod merge;
mod overrides;
mod path;
mod problem;
mod resolve;
mod server;
mod target;
mod types;
mod validate;
mod wrapper;
mod write;

pub use lines::Lines;
pub use problem::{Class, Problem, Subject};
pub use types::{
    ApiVersion, AuthProvider, Cluster, Context, Exec, Impersonate, InteractiveMode, Kubeconfig,
    Named, Overrides, Place, Preferences, Target, User,
};
pub use wrapper::{WRAPPER, WRAPPER_HINT};

/// The extension of a cluster that is handed to its plugins (KC-38).
pub const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";
