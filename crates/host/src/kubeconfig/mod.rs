//! Reads kubeconfig files: our own reader, because an error must say file, line, user and field.
//!
//! ```text
//! files ──► Kubeconfig (one each) ──► Kubeconfig ──► Target
//!     decode                    merge         resolve
//! ```

mod check;
mod decode;
mod exec_info;
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
mod suggest;
mod target;
pub(crate) mod types;
mod validate;
mod wrapper;
mod write;

pub(crate) use lines::Lines;
pub(crate) use problem::Subject;
pub use problem::{Class, Problem};
pub use types::{
    ApiVersion, AuthProvider, Cluster, Context, Exec, Impersonate, InteractiveMode, Named, Place,
    User,
};
pub(crate) use types::{Kubeconfig, Overrides, Target};

/// The extension of a cluster that is handed to its plugins (KC-38).
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";
