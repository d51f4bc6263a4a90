//! Docker's `config.json`: logins by registry.

use std::{
    io,
    path::{Path, PathBuf},
};

use keyward_image::{Keyring, Reading};
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_process::surroundings::Surroundings;
use keyward_protocol::{
    Node,
    image::Login,
    node::{DecodeError, Entry},
};

use super::registries::{Registries, entries, unreadable};

/// The parts of `config.json` that concern logins, and logins from files of container runtimes.
pub(crate) struct DockerConfig {
    path: PathBuf,
    root: Option<Node>,
    /// Logins from other files, which count after those of `config.json`.
    others: Vec<(String, Login)>,
}

/// A login from the file.
pub(super) struct FileLogin {
    pub(super) login: Login,
    /// Whether the login is for every image of the registry, and the file has no others for it.
    pub(super) whole_registry: bool,
}

impl DockerConfig {
    /// Reads `explicit`, or the file that docker would read, unless there are `registries`: these are files of
    /// container runtimes. A missing file means no logins.
    pub(super) fn load(
        explicit: Option<&Path>,
        registries: &[PathBuf],
        surroundings: &Surroundings,
    ) -> Result<Self, Refusal> {
        let mut others = Vec::new();
        for path in registries {
            others.extend(Registries::read(path)?.logins);
        }
        if explicit.is_none() && !registries.is_empty() {
            return Ok(Self { path: PathBuf::new(), root: None, others });
        }
        let path = explicit.map(Path::to_owned).or_else(|| docker_config(surroundings));
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
                return Ok(Self { path, root: None, others });
            }
            Err(error) => return Err(unreadable(&path, &error)),
        };
        Ok(Self { others, ..Self::from_bytes(&path, &bytes)? })
    }

    /// Parses the content of the file at `path`.
    pub(crate) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Refusal> {
        let root = Node::from_json(bytes)
            .map_err(|error| wrong(path, &format!("line {}: {}", error.line, error.what)))?;
        Ok(Self { path: path.to_owned(), root: Some(root), others: Vec::new() })
    }

    /// The helper that docker asks about a registry.
    pub(super) fn helper(&self, registry: &str) -> Option<&str> {
        let root = self.root.as_ref()?;
        let of = |server: &str| root.get("credHelpers")?.get(server)?.as_text();
        let own = of(registry).or_else(|| match registry {
            "docker.io" => of("index.docker.io").or_else(|| of("https://index.docker.io/v1/")),
            _ => None,
        });
        own.or_else(|| self.store()).filter(|name| !name.is_empty())
    }

    /// The login in `auths` that matches an image.
    pub(super) fn login(&self, image: &str) -> Result<Option<FileLogin>, Refusal> {
        let keyring = self.keyring()?;
        let registry = image.split('/').next().unwrap_or(image);
        let special = |key: &str| {
            key.split_once('/').is_some_and(|(host, _)| host == registry || host.contains('*'))
        };
        let whole_registry = !keyring.keys().any(special);
        let best = keyring.lookup(image).into_iter().next();
        Ok(best.map(|(_, login)| FileLogin { login: login.clone(), whole_registry }))
    }

    /// The logins of all files.
    fn keyring(&self) -> Result<Keyring, Refusal> {
        // Docker itself knows only hosts. Tools that write paths, podman and skopeo, match whole
        // segments.
        let mut keyring = Keyring::new(Reading::Segments);
        if let Some(auths) = self.root.as_ref().and_then(|root| root.get("auths")) {
            let place = |error: DecodeError| wrong(&self.path, &error.to_string());
            let logins = Keyring::read_auths(auths).map_err(place)?.into_iter();
            // Docker leaves an empty entry behind when a helper has the login.
            let complete = |login: &Login| !login.username.is_empty() && !login.password.is_empty();
            keyring.add(logins.filter(|(_, login)| complete(login)));
        }
        keyring.add(self.others.iter().cloned());
        Ok(keyring)
    }

    /// The registries with a login in `auths`, in the form that images have.
    pub(crate) fn registries(&self) -> Result<Vec<String>, Refusal> {
        let hosts = self.keyring()?;
        let hosts = hosts.keys().map(|key| key.split('/').next().unwrap_or(key));
        Ok(hosts.map(as_in_images).collect())
    }

    /// The registries with a helper of their own, and its name.
    pub(crate) fn helpers(&self) -> Vec<(String, String)> {
        let all = entries(self.root.as_ref().and_then(|root| root.get("credHelpers")));
        let named = |entry: &Entry| {
            let helper = entry.value.as_text()?;
            let server = entry.key.trim_start_matches("https://").split('/').next()?;
            Some((as_in_images(server), helper.to_owned()))
        };
        all.iter().filter_map(named).collect()
    }

    /// The helper of all other registries.
    pub(crate) fn store(&self) -> Option<&str> {
        self.root.as_ref()?.get("credsStore")?.as_text().filter(|name| !name.is_empty())
    }
}

/// The host of a registry in the form that images have: docker has another name for its own.
fn as_in_images(host: &str) -> String {
    if host == "index.docker.io" { "docker.io".into() } else { host.into() }
}

/// The configuration that docker reads: `config.json` in `$DOCKER_CONFIG` or in `~/.docker`.
pub(crate) fn docker_config(surroundings: &Surroundings) -> Option<PathBuf> {
    let directory = surroundings.var("DOCKER_CONFIG").filter(|text| !text.is_empty());
    let directory = match directory {
        Some(directory) => PathBuf::from(directory),
        None => surroundings.home()?.join(".docker"),
    };
    Some(directory.join("config.json"))
}

fn wrong(path: &Path, why: &str) -> Refusal {
    Refusal::BadConfig(format!("`{}` is not a docker configuration: {why}", path.display()))
}
