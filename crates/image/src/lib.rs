//! Credentials for pulling images: which providers match, and what they answer.
//!
//! ```text
//! Config ──► Images::lookup(image) ──► Lookup
//!      load   normalise, match, ask, cache
//! ```
//!
//! [`Config`] lists the providers; [`Images`] asks them and caches their answers; [`ReloadingConfig`]
//! notices that the configuration has changed; [`Config::lint`] reports what is odd about it.

mod account;
mod answer;
mod cache;
mod chain;
mod config;
mod failure;
mod glob;
mod images;
mod index;
mod keyring;
mod lint;
mod lookup;
mod mismatch;
mod name;
mod normalise;
mod pattern;
mod provider;
mod question;
mod reload;
mod shared;
mod short;

pub use account::{Account, Accounts, Pod, TokenRequest};
pub use answer::{Answer, Scope};
pub use config::{
    Class, Config, Faults, Files, Problem, Protocol, Provider, Stage, TokenAttributes, TokenCache,
};
pub use images::Images;
pub use index::{Index, Reading};
pub use keyring::Keyring;
pub use lint::{Finding, Requirement, Severity, missing_ecr_names};
pub use lookup::{FoundLogin, Lookup, Outcome, ProviderResult};
pub use name::Name;
pub use normalise::{NotAnImage, normalise};
pub use pattern::{Pattern, PatternError};
pub use provider::Settings;
pub use reload::ReloadingConfig;
pub use shared::{SharedLease, SharedStore, failed_elsewhere};
