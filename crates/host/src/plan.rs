//! What would be done for a target, and why, before anything runs.

use std::time::Duration;

use crate::{Error, Surroundings, kubeconfig::Target, rules::Rules};

/// A decided way to get credentials for a [`Target`]. What cannot be run cannot be built.
#[derive(Debug, Clone)]
pub struct Plan {
    // private: target, method (anonymous, static, token file, exec, oidc), settings
}

/// How plugins are run; the defaults are the design's.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// Budget of a run nobody attends.
    pub unattended: Duration,
    /// Budget of a run with a person at the terminal.
    pub attended: Duration,
}

impl Plan {
    /// Decides: which method wins (EX-15), which program, interactive or not (IT), what it is told.
    pub fn new(
        _target: Target,
        _rules: &Rules,
        _surroundings: &Surroundings,
        _settings: Settings,
    ) -> Result<Self, Error> {
        todo!()
    }
}
