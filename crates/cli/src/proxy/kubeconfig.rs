//! The kubeconfig that clients use: one context for each that is served, under the same name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use keyward_host::{
    Kubeconfig, Surroundings,
    kubeconfig::{Cluster, Context, Lines, Named, Place, User},
};
use keyward_protocol::{Node, Secret};

use super::{pass::Pass, route::Route};
use crate::failure::Failure;

/// The extension that tells our files from people's own.
const MARK: &str = "keyward-proxy";

/// A file that was written, and is taken away when this is dropped, if it is still ours.
pub(crate) struct Written {
    pub(crate) path: PathBuf,
    file: File,
}

/// What clients are given for one context.
pub(crate) struct Entry<'a> {
    pub(crate) route: &'a Route,
    pub(crate) server_name: &'a str,
    pub(crate) pass: &'a Pass,
}

/// The kubeconfig as text.
pub(crate) fn compose(url: &str, authority: &str, entries: &[Entry<'_>], current: &str) -> Secret {
    let mut config = Kubeconfig::default();
    for Entry { route, server_name, pass } in entries {
        let name = route.name().to_owned();
        let cluster = Cluster {
            server: url.to_owned(),
            tls_server_name: (*server_name).to_owned(),
            certificate_authority_data: authority.as_bytes().to_vec(),
            ..Cluster::default()
        };
        let user = User {
            client_certificate_data: pass.certificate_pem.as_bytes().to_vec(),
            client_key_data: pass.key_pem.clone(),
            ..User::default()
        };
        let context = Context {
            cluster: name.clone(),
            user: name.clone(),
            namespace: route.target.namespace.clone(),
            ..Context::default()
        };
        config.clusters.push(named(&name, cluster));
        config.users.push(named(&name, user));
        config.contexts.push(named(&name, context));
    }
    current.clone_into(&mut config.current_context);
    if let Ok(mark) = Node::from_json(br#"{"writtenBy":"keyward proxy"}"#) {
        config.extensions.push(named(MARK, mark));
    }
    config.to_json()
}

fn named<T>(name: &str, value: T) -> Named<T> {
    Named { name: name.to_owned(), place: Place::default(), lines: Lines::default(), value }
}

/// Writes it, for this user's eyes only.
///
/// Fails where `path` is a file that we have not written: least of all is it one that the contexts
/// come from.
pub(crate) fn write(
    path: &Path,
    text: &Secret,
    from: &Kubeconfig,
    surroundings: &Surroundings,
) -> Result<Written, Failure> {
    let path = surroundings.absolute(path);
    let shown = path.display();
    let own = from.files.iter().any(|(file, there)| *there && same(file, &path));
    if own {
        return Err(Failure::usage(format!("`{shown}` is the kubeconfig that is read"))
            .hint("write it elsewhere, and set `KUBECONFIG` for the clients"));
    }
    if fs::symlink_metadata(&path).is_ok() && !is_ours(&path) {
        return Err(Failure::usage(format!("`{shown}` is there, and not written by a proxy"))
            .hint("name a file that is not there"));
    }
    let written = replace(&path, text).map_err(|error| {
        Failure::failed(format!("`{shown}` cannot be written")).note("cause", error.to_string())
    })?;
    Ok(Written { path, file: written })
}

/// A new file in the place of whatever is there: whoever has the old one open learns nothing.
fn replace(path: &Path, text: &Secret) -> io::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let done = file.write_all(text.expose().as_bytes()).and_then(|()| fs::rename(&beside, path));
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done.map(|()| file)
}

fn same(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => one == other,
    }
}

fn is_ours(path: &Path) -> bool {
    let regular = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    regular
        && fs::read(path)
            .ok()
            .and_then(|bytes| Kubeconfig::from_bytes(&bytes).ok())
            .is_some_and(|config| config.extensions.iter().any(|known| known.name == MARK))
}

impl Drop for Written {
    fn drop(&mut self) {
        let ours = self.file.metadata().map(|own| (own.dev(), own.ino()));
        let there = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if let (Ok(ours), Ok(there)) = (ours, there)
            && ours == there
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}
