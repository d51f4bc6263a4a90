//! No agent.

use std::time::Duration;

use keyward_process::surroundings::Surroundings;
use keyward_protocol::Secret;

use super::{Failure, Lease};

/// Never constructed: the agent exists on Linux only.
pub(super) enum Agent {}

impl Agent {
    pub(super) fn connect(_: &Surroundings) -> Result<Self, Failure> {
        Err("the agent exists on Linux only".into())
    }

    pub(super) fn connect_system(surroundings: &Surroundings) -> Result<Self, Failure> {
        Self::connect(surroundings)
    }

    pub(super) fn connect_or_start(surroundings: &Surroundings) -> Result<Self, Failure> {
        Self::connect(surroundings)
    }

    pub(super) fn get_all(&mut self, _: Vec<String>) -> Result<Vec<Option<Secret>>, Failure> {
        match *self {}
    }

    pub(super) fn lease(
        &mut self,
        _: String,
        _: Duration,
        _: impl FnOnce(),
    ) -> Result<Lease, Failure> {
        match *self {}
    }

    pub(super) fn put(&mut self, _: String, _: Secret, _: i64) -> Result<(), Failure> {
        match *self {}
    }

    pub(super) fn forget(&mut self, _: String) -> Result<(), Failure> {
        match *self {}
    }
}
