//! The clients' kubeconfig: one context for each that is served, under the same name.

use std::{
    env,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_host::{
    Kubeconfig,
    kubeconfig::{Cluster, Context, Named, User},
};
use keyward_process::{
    file::{self, Limits},
    lock,
    surroundings::Surroundings,
};
use keyward_protocol::{Node, Secret};

use crate::Error;
use crate::{certificates, context::ServedContext};

/// The extension that marks our files, unless they were merged with others.
pub(crate) const MARK: &str = "keyward-proxy";

/// A written file, removed when this is dropped if it is still ours.
pub(crate) struct Written {
    pub(crate) path: PathBuf,
    file: File,
}

/// The kubeconfig as text.
pub(crate) fn compose(authority: &str, contexts: &[Arc<ServedContext>], current: &str) -> Secret {
    let mut config = Kubeconfig::default();
    for context in contexts {
        let namespace = lock(&context.namespace).clone();
        push(&mut config, authority, context, context.client.user(), namespace);
    }
    current.clone_into(&mut config.current_context);
    config.extensions.extend(mark(std::process::id()));
    config.to_json()
}

/// Adds a context with its cluster and this user, all under its name.
pub(crate) fn push(
    config: &mut Kubeconfig,
    authority: &str,
    context: &ServedContext,
    user: User,
    namespace: String,
) {
    let name = context.name.as_str();
    let cluster = cluster(context.url.clone(), authority.as_bytes().to_vec());
    config.clusters.push(Named::new(name, cluster));
    config.users.push(Named::new(name, user));
    config.contexts.push(Named::new(name, of_name(name, namespace)));
}

fn cluster(server: String, certificate_authority_data: Vec<u8>) -> Cluster {
    Cluster { server, certificate_authority_data, ..Cluster::default() }
}

/// A context whose cluster and user have the same name.
fn of_name(name: &str, namespace: String) -> Context {
    Context { cluster: name.to_owned(), user: name.to_owned(), namespace, ..Context::default() }
}

/// Reads a kubeconfig; `None` if the file is not one.
pub(crate) fn read(path: &Path) -> Option<Kubeconfig> {
    Kubeconfig::from_bytes(&file::read(path, &Limits::NAMED.regular()).ok()?).ok()
}

fn mark(process: u32) -> Option<Named<Node>> {
    let text = format!(r#"{{"process":{process},"writtenBy":"keyward proxy"}}"#);
    Node::from_json(text.as_bytes()).ok().map(|mark| Named::new(MARK, mark))
}

/// The process that wrote one of our kubeconfigs.
fn writer(config: &Kubeconfig) -> Option<u32> {
    let mark = config.extensions.iter().find(|extension| extension.name == MARK)?;
    let mark: serde_json::Value = serde_json::from_str(&mark.value.to_json()).ok()?;
    mark["process"].as_u64()?.try_into().ok()
}

/// Writes the kubeconfig, readable by this user only.
///
/// Fails if `path` is a file that we did not write, or a place where the user's own kubeconfig is
/// looked for: ours is deleted at the end.
pub(crate) fn write(
    path: &Path,
    text: &Secret,
    from: &Kubeconfig,
    surroundings: &Surroundings,
) -> Result<Written, Error> {
    let path = surroundings.absolute(path);
    let shown = path.display();
    if from.files.iter().any(|(file, _)| same(&surroundings.absolute(file), &path)) {
        return Err(Error::usage(format!("`{shown}` is the kubeconfig that the proxy reads"))
            .hint("write it elsewhere, and set `KUBECONFIG` for the clients"));
    }
    if usual(surroundings).iter().any(|file| same(file, &path)) {
        return Err(Error::usage(format!("`{shown}` is where your own kubeconfig is looked for"))
            .hint("name a file that is neither `~/.kube/config` nor listed in `KUBECONFIG`"));
    }
    if let Some(why) = path.parent().and_then(open_to_others) {
        return Err(Error::usage(format!("`{shown}` is in a directory {why}"))
            .hint("others could put their own kubeconfig there; use a directory that only you can write to"));
    }
    if fs::symlink_metadata(&path).is_ok() {
        let Some(old) = ours(&path) else {
            return Err(Error::usage(format!("`{shown}` exists and was not written by a proxy"))
                .hint("name a file that does not exist"));
        };
        if is_held(&path) {
            let process = writer(&old).unwrap_or_default();
            let message = format!("`{shown}` is in use by the proxy of process {process}");
            return Err(Error::usage(message)
                .hint("end that proxy, or name another file; `keyward proxy status` shows both"));
        }
    }
    let file = replace(&path, text)
        .map_err(|error| Error::caused(format!("`{shown}` cannot be written"), &error))?;
    Ok(Written { path, file })
}

/// Why others could add or remove files in a directory. A sticky bit does not make a world-writable
/// directory safe, because the name is free again when the proxy ends.
fn open_to_others(directory: &Path) -> Option<&'static str> {
    let found = fs::metadata(directory).ok()?;
    let (own, root) = (rustix::process::geteuid().as_raw(), 0);
    if found.mode() & 0o002 != 0 {
        Some("that everyone can write to")
    } else if ![own, root].contains(&found.uid()) {
        Some("of another user")
    } else {
        None
    }
}

/// Whether a running proxy holds the file.
fn is_held(path: &Path) -> bool {
    let held = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    File::open(path).is_ok_and(held)
}

/// Replaces the file by a new one, so that processes that have the old one open learn nothing. The
/// new one is locked while it is open.
fn replace(path: &Path, text: &Secret) -> io::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let done = file
        .lock()
        // Whatever the umask.
        .and_then(|()| file.set_permissions(fs::Permissions::from_mode(0o600)))
        .and_then(|()| file.write_all(text.expose().as_bytes()))
        .and_then(|()| fs::rename(&beside, path));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done.map(|()| file)
}

/// Where clients look for the user's own kubeconfig, whether or not it exists.
fn usual(surroundings: &Surroundings) -> Vec<PathBuf> {
    let listed = surroundings.var("KUBECONFIG").unwrap_or_default();
    let default = surroundings.home().map(|home| home.join(".kube/config"));
    env::split_paths(&listed)
        .filter(|path| !path.as_os_str().is_empty())
        .chain(default)
        .map(|path| surroundings.absolute(&path))
        .collect()
}

/// Whether both are the same file, or would be if it existed.
fn same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    match (identity(one), identity(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => {
            let directory = |path: &Path| path.parent().and_then(identity);
            one == other
                || (one.file_name() == other.file_name()
                    && directory(one).is_some_and(|found| Some(found) == directory(other)))
        }
        _ => false,
    }
}

/// The content of a file that contains only what a proxy wrote. The mark alone is not enough: it is
/// copied when users merge our kubeconfig into theirs. A client may have chosen another context or
/// namespace.
fn ours(path: &Path) -> Option<Kubeconfig> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    read(path).filter(is_all_ours)
}

fn is_all_ours(config: &Kubeconfig) -> bool {
    let clusters = config.clusters.iter().all(|Named { value: cluster, .. }| {
        certificates::is_authority(&cluster.certificate_authority_data)
    });
    let users = config
        .users
        .iter()
        .all(|user| certificates::is_client(&user.value.client_certificate_data));
    clusters && users && core(config).to_json().expose() == config.to_json().expose()
}

/// The parts of a kubeconfig that a proxy writes.
fn core(config: &Kubeconfig) -> Kubeconfig {
    let mut core = Kubeconfig {
        current_context: config.current_context.clone(),
        extensions: writer(config).and_then(mark).into_iter().collect(),
        ..Kubeconfig::default()
    };
    for Named { name, value, .. } in &config.clusters {
        let authority = value.certificate_authority_data.clone();
        core.clusters.push(Named::new(name.as_str(), cluster(value.server.clone(), authority)));
    }
    for Named { name, value, .. } in &config.users {
        let user = User {
            client_certificate_data: value.client_certificate_data.clone(),
            client_key_data: value.client_key_data.clone(),
            ..User::default()
        };
        core.users.push(Named::new(name.as_str(), user));
    }
    for Named { name, value, .. } in &config.contexts {
        core.contexts.push(Named::new(name.as_str(), of_name(name, value.namespace.clone())));
    }
    core
}

impl Drop for Written {
    fn drop(&mut self) {
        let own = self.file.metadata().map(|own| (own.dev(), own.ino()));
        let there = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if let (Ok(own), Ok(there)) = (own, there)
            && own == there
        {
            // Clients write into it too, as `kubectl config set-cluster` does.
            if ours(&self.path).is_some() {
                let _ = fs::remove_file(&self.path);
            } else {
                let path = self.path.display();
                tracing::warn!("`{path}` is kept: it contains more than the proxy wrote");
            }
        }
    }
}
