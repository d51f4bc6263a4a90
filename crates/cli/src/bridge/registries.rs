//! Logins in the files of container runtimes: `registries.yaml` of k3s and RKE2, containerd's `config.toml`, and the
//! `hosts.toml` files in directories such as `/etc/containerd/certs.d`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use keyward_image::Keyring;
use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{
    Node, Url,
    image::Login,
    json,
    node::{Entry, Value},
};
use zeroize::Zeroizing;

use super::toml;

/// What such a file, or a directory of `hosts.toml` files, says about registries.
#[derive(Default)]
pub(crate) struct Registries {
    /// Logins by registry.
    pub(crate) logins: Vec<(String, Login)>,
    /// Registries that are pulled through other hosts, with these hosts.
    pub(crate) mirrors: Vec<(String, Vec<String>)>,
    /// The directories of `hosts.toml` files that containerd's configuration names.
    pub(crate) directories: Vec<PathBuf>,
    /// Registries with a credential that is neither a user name with a password nor its Base64.
    pub(crate) unusable: Vec<String>,
}

/// The plugins of containerd that have a table `registry`: of versions 3, 2 and 1 of its configuration.
const PLUGINS: [&str; 3] = ["io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri"];

impl Registries {
    /// Reads a directory of `hosts.toml` files, a `.toml` file of containerd, or a `registries.yaml`.
    pub(crate) fn read(path: &Path) -> Result<Self, Refusal> {
        Self::read_at(path, Path::to_owned)
    }

    /// Does what [`read`](Self::read) does, in a copy of another file system: `place` says where a path of that system
    /// is here.
    pub(crate) fn read_at(path: &Path, place: impl Fn(&Path) -> PathBuf) -> Result<Self, Refusal> {
        let mut registries = Self::default();
        let read = |path: &Path| {
            let bytes = file::read(&place(path), &Limits::NAMED);
            bytes.map_err(|error| unreadable(path, &error))
        };
        let read_toml = |path: &Path| {
            let wrong = |line| wrong(path, &format!("line {line} is not valid TOML"));
            toml::read(&read(path)?).map_err(wrong)
        };
        if place(path).is_dir() {
            let files = hosts_files(path, &place).map_err(|error| unreadable(path, &error))?;
            for (registry, file) in files {
                registries.hosts(&registry, &read_toml(&file)?, &file)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            registries.containerd(&read_toml(path)?, path)?;
        } else {
            let bytes = read(path)?;
            let root = Node::from_json_or_yaml(&bytes)
                .map_err(|error| wrong(path, &format!("line {}: {}", error.line, error.what)))?;
            registries.tables(&root, path)?;
        }
        registries.logins.dedup();
        Ok(registries)
    }

    fn containerd(&mut self, root: &Node, path: &Path) -> Result<(), Refusal> {
        let Some(plugins) = root.get("plugins") else { return Ok(()) };
        for registry in PLUGINS.iter().filter_map(|plugin| plugins.get(plugin)?.get("registry")) {
            self.tables(registry, path)?;
            for entry in entries(registry.get("auths")) {
                self.login(&entry.key, &entry.value, path)?;
            }
            let directories =
                registry.get("config_path").and_then(Node::as_text).unwrap_or_default();
            let named = directories.split(':').filter(|directory| !directory.is_empty());
            self.directories.extend(named.map(PathBuf::from));
        }
        Ok(())
    }

    /// Reads `mirrors` and `configs`, which k3s and containerd have in common.
    fn tables(&mut self, root: &Node, path: &Path) -> Result<(), Refusal> {
        for entry in entries(root.get("mirrors")) {
            let endpoints = texts(entry.value.get("endpoint").or(entry.value.get("endpoints")));
            self.mirror(&entry.key, endpoints.iter().copied());
        }
        for entry in entries(root.get("configs")) {
            if let Some(auth) = entry.value.get("auth") {
                self.login(&entry.key, auth, path)?;
            }
        }
        Ok(())
    }

    /// Reads the `hosts.toml` of one registry.
    fn hosts(&mut self, registry: &str, root: &Node, path: &Path) -> Result<(), Refusal> {
        let server = root.get("server").and_then(Node::as_text).unwrap_or(registry);
        self.header(server, root, path)?;
        let hosts = entries(root.get("host"));
        for host in hosts {
            self.header(&host.key, &host.value, path)?;
        }
        self.mirror(registry, hosts.iter().map(|host| host.key.as_str()));
        Ok(())
    }

    /// Adds the login in the `Authorization` header that requests to a server have.
    fn header(&mut self, server: &str, table: &Node, path: &Path) -> Result<(), Refusal> {
        let headers = entries(table.get("header")).iter();
        for header in headers.filter(|header| header.key.eq_ignore_ascii_case("authorization")) {
            for value in texts(Some(&header.value)) {
                let Some(basic) = value.strip_prefix("Basic ") else {
                    self.unusable.push(host(server));
                    continue;
                };
                let mut auth = Zeroizing::new("{\"auth\":".to_owned());
                json::push_text(&mut auth, basic.trim());
                auth.push('}');
                let auth =
                    Node::from_json(auth.as_bytes()).map_err(|_| wrong(path, "its header"))?;
                self.login(server, &auth, path)?;
            }
        }
        Ok(())
    }

    fn login(&mut self, server: &str, auth: &Node, path: &Path) -> Result<(), Refusal> {
        let login = Keyring::read_login(auth, server).map_err(|error| wrong(path, &error.what))?;
        let registry = host(server);
        if registry == "*" || login.username.is_empty() || login.password.is_empty() {
            self.unusable.push(registry);
        } else {
            self.logins.push((registry, login));
        }
        Ok(())
    }

    fn mirror<'a>(&mut self, registry: &str, endpoints: impl Iterator<Item = &'a str>) {
        let registry = host(registry);
        let mut others: Vec<String> =
            endpoints.map(host).filter(|host| *host != registry).collect();
        others.dedup();
        if !others.is_empty() {
            self.mirrors.push((registry, others));
        }
    }
}

/// The host and port of a server, which may have a scheme and a path, as images name it.
fn host(server: &str) -> String {
    let full = if server.contains("://") { server.to_owned() } else { format!("https://{server}") };
    let host = Url::parse(&full).map_or_else(
        |_| server.into(),
        |url| String::from_utf8_lossy(url.authority()).into_owned(),
    );
    match host.as_str() {
        "registry-1.docker.io" | "index.docker.io" => "docker.io".into(),
        _ => host,
    }
}

/// The registries that have a `hosts.toml` in a directory, with its path.
fn hosts_files(
    directory: &Path,
    place: impl Fn(&Path) -> PathBuf,
) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place(directory))? {
        let name = entry?.file_name();
        let file = directory.join(&name).join("hosts.toml");
        if place(&file).is_file() {
            found.push((registry_of(&name.to_string_lossy()), file));
        }
    }
    found.sort();
    Ok(found)
}

/// The registry of a directory's name. containerd also accepts `HOST_PORT_`, because not every file system allows
/// a colon.
fn registry_of(name: &str) -> String {
    let port = name.strip_suffix('_').and_then(|rest| rest.rsplit_once('_'));
    match port.filter(|(_, port)| port.parse::<u16>().is_ok()) {
        Some((host, port)) => format!("{host}:{port}"),
        None => name.to_owned(),
    }
}

pub(super) fn entries(node: Option<&Node>) -> &[Entry] {
    node.map(Node::entries).unwrap_or_default()
}

/// A text, or the texts of a list.
pub(crate) fn texts(node: Option<&Node>) -> Vec<&str> {
    match node.map(|node| &node.value) {
        Some(Value::List(items)) => items.iter().filter_map(Node::as_text).collect(),
        Some(Value::Text(text)) => vec![text.as_str()],
        _ => Vec::new(),
    }
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    Refusal::Failed(format!("`{}` cannot be read: {}", path.display(), file::reason(error)))
}

fn wrong(path: &Path, why: &str) -> Refusal {
    Refusal::BadConfig(format!("`{}` does not describe registries: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_as_in_images() {
        for (server, expected) in [
            ("https://registry.example:5000/v2/", "registry.example:5000"),
            ("https://ann:s3cr3t@registry.example", "registry.example"),
            ("registry.example", "registry.example"),
            ("https://registry-1.docker.io", "docker.io"),
        ] {
            assert_eq!(host(server), expected);
        }
        assert_eq!(registry_of("registry.example_5000_"), "registry.example:5000");
        assert_eq!(registry_of("docker.io"), "docker.io");
    }
}
