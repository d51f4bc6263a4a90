//! The error of this crate.

use std::{error::Error as StdError, fmt};

/// What could not be set up, and why.
#[derive(Debug)]
pub struct Error {
    what: &'static str,
    source: Box<dyn StdError + Send + Sync>,
}

impl Error {
    /// Returns the function that names a failure, for `map_err`.
    pub fn of<E>(what: &'static str) -> impl Fn(E) -> Self
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        move |source| Self { what, source: source.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.what)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_ref())
    }
}
