//! Credentials for pulling images: which provider is meant, and what it answers.
//!
//! ```text
//! Config ──► Images::lookup(image) ──► Found
//!      load   normalise, match, ask, keep
//! ```
//!
//! [`Config`] says which providers there are; [`Images`] asks them and keeps what they answer;
//! [`Follow`] notices that the configuration has changed; [`lint()`] says what is odd about it.

mod account;
mod answer;
mod cache;
mod chain;
pub mod config;
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
mod short;

pub use account::{Account, Accounts, Pod, TokenRequest};
pub use answer::{Answer, Scope};
pub use config::Config;
pub use images::{Images, Looking};
pub use index::{Index, Reading};
pub use keyring::{Keyring, read_auths};
pub use lint::{Finding, Need, Weight, audiences, lint, needs, permissions};
pub use lookup::{Asked, Found, FoundLogin, Outcome};
pub use mismatch::Mismatch;
pub use name::Name;
pub use normalise::{NotAnImage, normalise};
pub use pattern::{Pattern, PatternError};
pub use provider::Settings;
pub use reload::{Follow, Standing};
