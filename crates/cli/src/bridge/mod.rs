//! Bridges between image credential providers and docker. Each bridge is a name that the program
//! can be started by, or a separate program.

mod config;
mod docker;
mod helper;
mod registries;
mod token;
mod toml;

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(crate) use self::{
    config::{DockerConfig, docker_config},
    registries::{Registries, texts},
};

use clap::CommandFactory as _;
use keyward_process::harden;

use crate::{failure::Failure, flags::Flags, globals::Globals};

/// A bridge between image credential providers and docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bridge {
    /// `docker-credential-keyward`: docker, podman and skopeo ask the kubelet's providers.
    Helper,
    /// `keyward-provider-docker`: the kubelet asks docker's `config.json` and its helpers.
    Docker,
    /// `keyward-provider-token`: the kubelet logs in with the pod's service account token.
    Token,
    /// `keyward-provider-node`: the kubelet asks all providers of a configuration that may change.
    Node,
}

impl Bridge {
    /// All bridges.
    pub const ALL: [Self; 4] = [Self::Helper, Self::Docker, Self::Token, Self::Node];

    /// The name that starts the bridge.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Helper => "docker-credential-keyward",
            Self::Docker => "keyward-provider-docker",
            Self::Token => "keyward-provider-token",
            Self::Node => keyward_node::NAME,
        }
    }

    /// The bridge with the name `program`.
    pub fn named(program: &OsStr) -> Option<Self> {
        let name = Path::new(program).file_name()?.to_str()?;
        let name = name.strip_suffix(std::env::consts::EXE_SUFFIX).unwrap_or(name);
        Self::ALL.into_iter().find(|bridge| bridge.name() == name)
    }

    /// The bridge as a program of its own beside `program`, if it is shipped as one and installed: it starts faster.
    pub(crate) fn beside(self, program: &Path) -> Option<PathBuf> {
        let path = program.with_file_name(self.name());
        let is_program = || fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        (self == Self::Node && is_program()).then_some(path)
    }

    /// The bridge's whole `main`.
    pub fn main(self) -> ExitCode {
        harden::keep_memory_private();
        if let Err(too_few) = harden::require_descriptors() {
            return Failure::from(too_few).report(&Globals::new(Flags::default()));
        }
        let args: Vec<OsString> = std::env::args_os().skip(1).collect();
        match self {
            Self::Helper => helper::main(&args),
            Self::Docker => docker::main(&args),
            Self::Token => token::main(&args),
            Self::Node => keyward_node::main(&args),
        }
    }
}

/// The path of this program, with symlinks resolved.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    own.map_err(Failure::of("cannot find the path of this program"))
}

/// The command lines of the bridges that have one, for the manual pages.
pub(crate) fn commands() -> [clap::Command; 3] {
    [docker::Args::command(), token::Args::command(), keyward_node::command()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_is_known_by_the_last_part_of_its_path() {
        for bridge in Bridge::ALL {
            let path = Path::new("/opt/bin").join(bridge.name());
            assert_eq!(Bridge::named(path.as_os_str()), Some(bridge));
        }
        assert_eq!(Bridge::named(OsStr::new("/opt/docker-credential-keyward/keyward")), None);
    }
}
