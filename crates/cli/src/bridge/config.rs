//! Docker's `config.json`: logins by registry.

use std::{
    io,
    path::{Path, PathBuf},
};

use keyward_image::{Keyring, Reading};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_process::surroundings::Surroundings;
use keyward_protocol::{Node, image::Login, node::DecodeError};

/// The parts of `config.json` that concern logins.
pub(super) struct DockerConfig {
    path: PathBuf,
    root: Option<Node>,
}

/// A login from the file.
pub(super) struct FileLogin {
    pub(super) login: Login,
    /// Whether the login is for every image of the registry, and the file has no others for it.
    pub(super) whole_registry: bool,
}

impl DockerConfig {
    /// Reads `explicit`, or the file that docker would read. A missing file means no logins.
    pub(super) fn load(
        explicit: Option<&Path>,
        surroundings: &Surroundings,
    ) -> Result<Self, Refusal> {
        let folder = || match surroundings.var("DOCKER_CONFIG").filter(|text| !text.is_empty()) {
            Some(folder) => Some(PathBuf::from(folder)),
            None => Some(surroundings.home()?.join(".docker")),
        };
        let path = explicit.map(Path::to_owned).or_else(|| Some(folder()?.join("config.json")));
        let path = path.ok_or_else(|| {
            Refusal::BadConfig(
                "docker's configuration was not found: neither `--config` nor \
                 `DOCKER_CONFIG` nor a home"
                    .into(),
            )
        })?;
        let bytes = match file::read(&path, &Limits::NAMED) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound && explicit.is_none() => {
                return Ok(Self { path, root: None });
            }
            Err(error) => {
                let path = path.display();
                return Err(Refusal::Failed(format!(
                    "`{path}` cannot be read: {}",
                    file::reason(&error)
                )));
            }
        };
        Self::from_bytes(&path, &bytes)
    }

    /// Parses the content of the file at `path`.
    pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Refusal> {
        let root = Node::from_json(bytes)
            .map_err(|error| wrong(path, &format!("line {}: {}", error.line, error.what)))?;
        Ok(Self { path: path.to_owned(), root: Some(root) })
    }

    /// The helper that docker asks about a registry.
    pub(super) fn helper(&self, registry: &str) -> Option<&str> {
        let root = self.root.as_ref()?;
        let of = |server: &str| root.get("credHelpers")?.get(server)?.text(server).ok()?;
        let own = of(registry).or_else(|| match registry {
            "docker.io" => of("index.docker.io").or_else(|| of("https://index.docker.io/v1/")),
            _ => None,
        });
        let all = || root.get("credsStore")?.text("credsStore").ok()?;
        own.or_else(all).filter(|name| !name.is_empty())
    }

    /// The login in `auths` that matches an image.
    pub(super) fn login(&self, image: &str) -> Result<Option<FileLogin>, Refusal> {
        let Some(auths) = self.root.as_ref().and_then(|root| root.get("auths")) else {
            return Ok(None);
        };
        let place = |error: DecodeError| wrong(&self.path, &error.to_string());
        let logins = Keyring::read_auths(auths).map_err(place)?;
        // Docker itself knows only hosts. Tools that write paths, podman and skopeo, match whole
        // segments.
        let mut keyring = Keyring::new(Reading::Strict);
        // Docker leaves an empty entry behind when a helper has the login.
        keyring.add(
            logins
                .into_iter()
                .filter(|(_, login)| !login.username.is_empty() && !login.password.is_empty()),
        );
        let registry = image.split('/').next().unwrap_or(image);
        let special = |key: &str| {
            key.split_once('/').is_some_and(|(host, _)| host == registry || host.contains('*'))
        };
        let whole_registry = !keyring.keys().any(special);
        let best = keyring.lookup(image).into_iter().next();
        Ok(best.map(|(_, login)| FileLogin { login: login.clone(), whole_registry }))
    }
}

fn wrong(path: &Path, why: &str) -> Refusal {
    Refusal::BadConfig(format!("`{}` is not a docker configuration: {why}", path.display()))
}
