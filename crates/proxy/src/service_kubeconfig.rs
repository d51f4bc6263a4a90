//! The kubeconfig of a service: it stays where it is, and what its users set in it stays too.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use keyward_host::{
    Kubeconfig,
    kubeconfig::{ApiVersion, Exec, InteractiveMode, Named, User},
};
use keyward_process::{
    LockFile,
    clock::{Clock as _, SystemClock},
    file::{self, Limits},
    lock,
};
use keyward_protocol::Node;
use serde::{Deserialize, Serialize};

use crate::{
    Service,
    context::{REMOVED, ServedContext, ServedContexts},
    kubeconfig::{self, MARK},
    service::write_private,
};

const API_VERSION: &str = "client.authentication.k8s.io/v1";
const HINT: &str = "this kubeconfig was written by `keyward proxy start`: install Keyward, and start the proxy again";

/// After how many seconds a lock on the kubeconfig counts as left behind.
const STALE: i64 = 10;

/// What we wrote the last time, which tells what users have set since.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Mark {
    written_by: String,
    service: String,
    current_context: String,
    /// The contexts and their namespaces.
    contexts: BTreeMap<String, String>,
}

impl Mark {
    fn of(config: &Kubeconfig) -> Self {
        let found = config.extensions.iter().find(|extension| extension.name == MARK);
        let text = found.map(|mark| mark.value.to_json());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }
}

/// The contexts that were served the last time, with their namespaces, and the current one: for a
/// start without a kubeconfig.
pub(crate) fn known_contexts(service: &Service) -> (Vec<(String, String)>, String) {
    let mark =
        kubeconfig::read(&service.kubeconfig()).map(|config| Mark::of(&config)).unwrap_or_default();
    (mark.contexts.into_iter().collect(), mark.current_context)
}

/// Brings the kubeconfig up to date. Returns whether that was possible: not while a client writes
/// it.
///
/// `current` is the current context of the kubeconfig that is served. It counts, as the namespaces of
/// its contexts do, until a user sets another one.
pub(crate) fn update(
    service: &Service,
    authority: &str,
    contexts: &ServedContexts,
    current: &str,
) -> io::Result<bool> {
    let path = service.kubeconfig();
    let Some(_lock) = take_lock(&path)? else { return Ok(false) };
    let before = match kubeconfig::read(&path) {
        Some(before) => before,
        None => {
            keep_broken(&path)?;
            Kubeconfig::default()
        }
    };
    let text = compose(&before, service, authority, &contexts.all(), current).to_json();
    let unchanged = file::read(&path, &Limits::NAMED.regular())
        .is_ok_and(|bytes| bytes.as_slice() == text.expose().as_bytes());
    if !unchanged {
        write_private(&path, text.expose().as_bytes())?;
    }
    Ok(true)
}

/// Copies a kubeconfig that cannot be read, before it is replaced: it may contain entries of a user. It stays in
/// its place until then, because clients without a kubeconfig connect elsewhere.
fn keep_broken(path: &Path) -> io::Result<()> {
    let bytes = match file::read(path, &Limits::NAMED.regular()) {
        Ok(bytes) if !bytes.is_empty() => bytes,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(()),
    };
    let mut copy = path.as_os_str().to_owned();
    copy.push(".broken");
    let copy = PathBuf::from(copy);
    tracing::warn!("`{}` is not valid; it is kept as `{}`", path.display(), copy.display());
    write_private(&copy, &bytes)
}

fn compose(
    before: &Kubeconfig,
    service: &Service,
    authority: &str,
    contexts: &[std::sync::Arc<ServedContext>],
    current: &str,
) -> Kubeconfig {
    let last = Mark::of(before);
    let is_free = |context: &&std::sync::Arc<ServedContext>| {
        let free = last.contexts.contains_key(&context.name) || !is_users_own(before, context);
        if !free {
            tracing::warn!(
                "context `{}` is not written into `{}`, which has entries of this name already",
                context.name,
                service.kubeconfig().display()
            );
        }
        free
    };
    let served: Vec<_> =
        contexts.iter().filter(|context| !context.is_closed_as(REMOVED)).filter(is_free).collect();
    let ours = |name: &str| {
        last.contexts.contains_key(name) || served.iter().any(|context| context.name == name)
    };
    let mut config = before.clone();
    config.clusters.retain(|entry| !ours(&entry.name));
    config.users.retain(|entry| !ours(&entry.name));
    config.contexts.retain(|entry| !ours(&entry.name));
    let mut mark = Mark {
        written_by: "keyward proxy".to_owned(),
        service: service.name().to_owned(),
        ..Mark::default()
    };
    for context in served {
        let name = &context.name;
        let namespace = lock(&context.namespace).clone();
        let entry = before.contexts.iter().find(|entry| entry.name == *name);
        let set = entry.map(|entry| &entry.value.namespace);
        let chosen = match (last.contexts.get(name), set) {
            (Some(written), Some(set)) if set != written => set.clone(),
            _ => namespace.clone(),
        };
        kubeconfig::push(&mut config, authority, context, user(service, context), chosen);
        mark.contexts.insert(name.clone(), namespace);
    }
    let names: Vec<_> = config.contexts.iter().map(|context| context.name.clone()).collect();
    let exists = |name: &String| names.contains(name);
    let set = &before.current_context;
    if *set != last.current_context && exists(set) {
        // Set by a user, and still not ours the next time.
        mark.current_context = last.current_context;
    } else {
        let wanted = Some(current.to_owned()).filter(exists);
        config.current_context = wanted.or(names.first().cloned()).unwrap_or_default();
        mark.current_context.clone_from(&config.current_context);
    }
    config.extensions.retain(|extension| extension.name != MARK);
    let text = serde_json::to_string(&mark).unwrap_or_default();
    let mark = Node::from_json(text.as_bytes()).ok().map(|mark| Named::new(MARK, mark));
    config.extensions.extend(mark);
    config
}

/// Whether entries with the name of a context were made by a user: ours have the address of the context, also
/// after a program that dropped our mark.
fn is_users_own(before: &Kubeconfig, context: &ServedContext) -> bool {
    let name = &context.name;
    match before.clusters.iter().find(|entry| entry.name == *name) {
        Some(cluster) => cluster.value.server != context.url,
        None => {
            before.contexts.iter().any(|entry| entry.name == *name)
                || before.users.iter().any(|entry| entry.name == *name)
        }
    }
}

/// How a client gets the certificate of a context: from the agent, or from the file.
fn user(service: &Service, context: &ServedContext) -> User {
    if service.settings().static_keys {
        return context.client.user();
    }
    let args = ["proxy", service.name(), &context.name].map(str::to_owned).to_vec();
    let exec = Exec {
        api_version: ApiVersion::parse(API_VERSION),
        command: service.settings().client.clone(),
        args,
        install_hint: HINT.to_owned(),
        interactive_mode: InteractiveMode::parse("IfAvailable"),
        ..Exec::default()
    };
    User { exec: Some(exec), ..User::default() }
}

/// Takes the lock that kubectl holds while it changes a kubeconfig; `None` if another program has it.
fn take_lock(path: &Path) -> io::Result<Option<LockFile>> {
    let lock = LockFile::take(path)?;
    if lock.is_none() && is_stale(&LockFile::path(path)) {
        // The next try finds it gone.
        let _ = fs::remove_file(LockFile::path(path));
    }
    Ok(lock)
}

/// Whether a lock was left by a process that was killed: writing a kubeconfig takes milliseconds.
fn is_stale(lock: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(lock) else { return false };
    SystemClock.wall_millis() / 1000 > found.mtime().saturating_add(STALE)
}
