//! Docker's `config.json`: who has which login.

use std::{
    io,
    path::{Path, PathBuf},
};

use keyward_image::{Keyring, Reading};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_process::surroundings::Surroundings;
use keyward_protocol::{Node, image::Login, node::DecodeError};

/// What it says, as far as logins are concerned.
pub(super) struct DockerConfig {
    path: PathBuf,
    root: Option<Node>,
}

/// A login of the file.
pub(super) struct FileLogin {
    pub(super) login: Login,
    /// Whether it is for every image of the registry, and nothing else in the file is for some.
    pub(super) whole_registry: bool,
}

impl DockerConfig {
    /// Reads `explicit`, or the file where docker looks. Where docker finds none it has no logins.
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
                "nothing says where docker's configuration is: neither `--config` nor \
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
                return Err(Refusal::Failed(format!("`{path}` cannot be read: {error}")));
            }
        };
        Self::from_bytes(&path, &bytes)
    }

    /// Reads what stood in the file at `path`.
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

    /// The login that `auths` has for an image.
    pub(super) fn login(&self, image: &str) -> Result<Option<FileLogin>, Refusal> {
        let Some(auths) = self.root.as_ref().and_then(|root| root.get("auths")) else {
            return Ok(None);
        };
        let place = |error: DecodeError| wrong(&self.path, &error.to_string());
        let logins = Keyring::read_auths(auths).map_err(place)?;
        // Docker itself knows hosts only. Those who write paths, podman and skopeo, mean whole segments.
        let mut keyring = Keyring::new(Reading::Strict);
        // With a helper docker leaves an empty entry behind.
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
    Refusal::BadConfig(format!("`{}` is no configuration of docker: {why}", path.display()))
}
