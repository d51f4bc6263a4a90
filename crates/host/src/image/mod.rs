//! Credentials for pulling images: which provider is meant, and what it answers.

mod chain;
pub mod config;
mod glob;
mod index;
mod keyring;
mod pattern;

pub use config::Config;
pub use index::{Index, Reading};
pub use keyring::{Keyring, read_auths};
pub use pattern::{Name, Pattern, PatternError};
