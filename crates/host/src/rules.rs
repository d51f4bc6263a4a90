//! Which programs may run: kuberc's plugin policy, and the state of the file itself.

use std::path::{Path, PathBuf};

use crate::{Error, Surroundings};

/// kuberc's `credentialPluginPolicy` with its allowlist, validated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Policy {
    /// Everything may run.
    #[default]
    AllowAll,
    /// Nothing may run.
    DenyAll,
    /// Only these, by name or path.
    Allowlist(Vec<String>),
}

/// The policy in force, where it came from, and how strict we are about files.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The policy.
    pub policy: Policy,
    /// The kuberc it came from.
    pub origin: Option<PathBuf>,
    /// Programs allowed although their file is writable or owned by others.
    pub trusted: Vec<PathBuf>,
}

/// A program that was found and may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The absolute path that will be executed.
    pub path: PathBuf,
    /// What is odd about it but allowed (group-writable).
    pub warnings: Vec<String>,
}

impl Rules {
    /// Reads `--kuberc`, `$KUBERC` or `~/.kube/kuberc` (PP-14 to PP-19), failing closed (D4).
    pub fn load(_surroundings: &Surroundings, _explicit: Option<&Path>) -> Result<Self, Error> {
        todo!()
    }

    /// Finds `command` (PATH for a bare name, EX-03), decides by policy (PP-05) and checks the file.
    pub fn admit(&self, _command: &str, _surroundings: &Surroundings) -> Result<Program, Error> {
        todo!()
    }
}
