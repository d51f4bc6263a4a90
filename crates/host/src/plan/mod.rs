//! What would be done for a target, and why, before anything runs.
//!
//! A [`Draft`] is everything that can be said about a target, faults included: it is what
//! `keyward plan` shows. A [`Plan`] is a draft without faults: what cannot be run cannot be
//! built.

mod choice;
mod draft;
mod key;
mod settings;

pub(crate) use self::{choice::Choice, key::PlanKey};
pub use self::{
    choice::Method,
    draft::{Draft, Plan},
    settings::{PlanSettings, StderrMode},
};
