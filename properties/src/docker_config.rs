//! Docker's `config.json`, and what its credential helpers answer.

use std::path::Path;

use crate::{budget, mark};

#[path = "../../crates/cli/src/bridge/registries.rs"]
mod registries;
#[path = "../../crates/cli/src/bridge/toml.rs"]
mod toml;

#[path = "../../crates/cli/src/bridge/config.rs"]
#[expect(dead_code, reason = "the program reads files with it")]
mod config;

use config::DockerConfig;

pub(crate) fn check(input: &[u8]) {
    let path = Path::new("config.json");
    let read = budget::within(input, || DockerConfig::from_bytes(path, input));
    let config = match read {
        Ok(config) => config,
        Err(error) => return mark::hidden(&format!("{error} {error:?}")),
    };
    for image in ["docker.io/library/app", "registry.io/team/app", "localhost:5000/app"] {
        let registry = image.split('/').next().unwrap_or_default();
        assert!(config.helper(registry).is_none_or(|helper| !helper.is_empty()));
        match budget::within(input, || config.login(image)) {
            Err(error) => mark::hidden_if_secret(input, &format!("{error} {error:?}")),
            Ok(Some(found)) => {
                assert!(!found.login.username.is_empty() && !found.login.password.is_empty());
            }
            Ok(None) => {}
        }
    }
}
