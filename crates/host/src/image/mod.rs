//! Credentials for pulling images: which provider is meant, and what it answers.

mod chain;
mod glob;
mod index;
mod keyring;
mod pattern;

pub use index::{Index, Reading};
pub use keyring::{Keyring, read_auths};
pub use pattern::{Name, Pattern, PatternError};
