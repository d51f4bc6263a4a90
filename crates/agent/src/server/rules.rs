//! The kuberc policy of whoever asks, read again when its file changes.

use std::path::PathBuf;

use keyward_host::{Error, rules::Rules};
use keyward_process::{Identity, surroundings::Surroundings};

/// The policy file in force, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    path: Option<PathBuf>,
    state: Option<Identity>,
}

impl Policy {
    /// The policy that holds in these surroundings.
    pub(super) fn of(surroundings: &Surroundings) -> Self {
        let path = Rules::path(surroundings, None);
        let state = path.as_deref().and_then(|path| Identity::read(path).ok());
        Self { path, state }
    }

    /// The rules in it.
    pub(super) fn load(surroundings: &Surroundings) -> Result<Rules, Error> {
        Rules::load(surroundings, None)
    }
}
