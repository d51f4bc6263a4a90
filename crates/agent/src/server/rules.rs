//! The kuberc policy of an asker, reloaded when its file changes.

use std::path::PathBuf;

use keyward_host::{Error, rules::Rules};
use keyward_process::{FileId, surroundings::Surroundings};

/// The policy file in force, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    path: Option<PathBuf>,
    state: Option<FileId>,
}

impl Policy {
    /// The policy file for these surroundings.
    pub(super) fn of(surroundings: &Surroundings) -> Self {
        let path = Rules::path(surroundings, None);
        let state = path.as_deref().and_then(|path| FileId::read(path).ok());
        Self { path, state }
    }

    /// Loads the policy.
    pub(super) fn load(surroundings: &Surroundings) -> Result<Rules, Error> {
        Rules::load(surroundings, None)
    }
}
