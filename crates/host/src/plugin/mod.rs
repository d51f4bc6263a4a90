//! What exec plugins, external signers and image credential providers have in common: how they are
//! described, how they are run, and what is said when they fail.
//!
//! ```text
//! Spec ──► RunSettings ──► Invocation ──► Output
//!    prepare          run
//! ```
//!
//! Each protocol has a module of its own (`exec`, [`crate::signer`], the crate `keyward-image`),
//! which decides what a plugin is asked and reads what it answers.

mod environment;
mod failure;
mod run;
mod spec;

pub(crate) use self::{
    environment::Variable,
    run::counted,
    spec::{Role, RunContext, Spec},
};
pub use self::{
    environment::{Environment, VariableOrigin},
    run::RunSettings,
    spec::{Preview, PreviewedRun},
};
