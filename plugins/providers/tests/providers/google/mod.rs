//! The families for Google, with google-auth as judge.

mod environments;
mod flags;
mod flows;
#[cfg(feature = "gar")]
mod gar;
#[cfg(all(feature = "gar", feature = "go-judges"))]
mod gar_tools;
mod gcloud;
mod kubectl;
mod pitfalls;
pub(crate) mod stage;
