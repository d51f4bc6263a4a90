//! The directory that Keyward has on a node.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{commands::image::install, failure::Failure, output, trusted};

/// Where it is unless told otherwise.
pub(super) const DEFAULT: &str = "/opt/keyward";

/// The programs of a version.
pub(super) const BIN: &str = "bin";
/// The kubelet's configuration of a version.
pub(super) const KUBELET: &str = "kubelet.yaml";
/// The configuration that `keyward-provider-node` reads.
pub(super) const PROVIDERS: &str = "providers.yaml";

const CURRENT: &str = "current";
const VERSIONS: &str = "versions";
const STATE: &str = "state";
const REQUEST: &str = "restart-kubelet";
const LOCK: &str = ".lock";

/// The directory that Keyward has on a node.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct NodeDir {
    /// The directory on the node; the kubelet must see it under the same path
    #[arg(long = "dir", value_name = "DIR", default_value = DEFAULT)]
    pub(super) path: PathBuf,
}

impl NodeDir {
    /// The link to the version in use.
    pub(super) fn current(&self) -> PathBuf {
        self.path.join(CURRENT)
    }

    /// The name of the version in use.
    pub(super) fn version(&self) -> Option<String> {
        let target = fs::read_link(self.current()).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// The directory of all versions.
    pub(super) fn versions(&self) -> PathBuf {
        self.path.join(VERSIONS)
    }

    /// Exists while the kubelet should run with the flags in it, and changes when it has to be restarted.
    pub(super) fn request(&self) -> PathBuf {
        self.path.join(REQUEST)
    }

    /// Waits until no other process changes the directory. The lock ends with the file.
    ///
    /// Fails if another user could change the directory: what is in it is run by root, and a link in it would lead
    /// us to files elsewhere.
    pub(super) fn lock(&self) -> Result<File, Failure> {
        let path = self.path.join(LOCK);
        loop {
            // A removal may be faster than each of these steps.
            let is_other = || fs::symlink_metadata(&self.path).is_ok_and(|found| !found.is_dir());
            match create_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !is_other() => {
                    continue;
                }
                made => made.map_err(failed("create", &self.path))?,
            }
            if trusted::directory(&self.path)?.is_none() {
                continue;
            }
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
            let file = match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(failed("lock", &path))?,
            };
            file.lock().map_err(failed("lock", &path))?;
            // `remove` deletes the file while others wait for it. They would hold a lock that nobody else sees.
            if is_at(&file, &path).map_err(failed("lock", &path))? {
                return Ok(file);
            }
        }
    }

    /// Makes this version the one in use. `current` always leads to the old or the new one.
    pub(super) fn switch_to(&self, name: &str) -> Result<(), Failure> {
        let link = self.current();
        install::link(&Path::new(VERSIONS).join(name), &link).map_err(failed("replace", &link))
    }

    /// Removes every version but these, and what an interrupted installation left behind.
    pub(super) fn remove_versions_but(&self, kept: &[&str]) -> Result<(), Failure> {
        let versions = self.versions();
        for entry in fs::read_dir(&versions).map_err(failed("read", &versions))? {
            let entry = entry.map_err(failed("read", &versions))?;
            let name = entry.file_name();
            if is_version(&name) && !kept.iter().any(|kept| name == *kept) {
                fs::remove_dir_all(entry.path()).map_err(failed("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// Removes everything that Keyward has created here; other files stay.
    pub(super) fn remove_all(&self) -> Result<(), Failure> {
        // The link first: the kubelet must not find half of a version.
        let link = self.current();
        if self.version().is_some_and(|name| is_version(name.as_ref())) {
            unless_missing(fs::remove_file(&link)).map_err(failed("remove", &link))?;
        }
        if self.versions().exists() {
            self.remove_versions_but(&[])?;
        }
        let state = self.path.join(STATE);
        if state.exists() {
            for entry in fs::read_dir(&state).map_err(failed("read", &state))? {
                let path = entry.map_err(failed("read", &state))?.path();
                if is_state(path.file_name().unwrap_or_default()) {
                    remove(&path).map_err(failed("remove", &path))?;
                }
            }
        }
        // What others have put there stays, and so does the directory that it is in.
        for dir in [self.versions(), state] {
            let _ = fs::remove_dir(dir);
        }
        let lock = self.path.join(LOCK);
        unless_missing(fs::remove_file(&lock)).map_err(failed("remove", &lock))?;
        // A mount point, or with files of others, it stays.
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }
}

/// Whether a version, finished or not, can have this name: the directory may have been used by others before.
fn is_version(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")).unwrap_or(name);
    let digits = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('-').is_some_and(|(_, digest)| digits(digest))
}

/// Whether `keyward-provider-node` keeps its state under this name.
fn is_state(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    let starts = ["last-good", "sha256-", "metrics."];
    starts.iter().any(|start| name.strip_prefix('.').unwrap_or(name).starts_with(start))
}

/// Removes a file, a link or a directory with everything in it.
fn remove(path: &Path) -> io::Result<()> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    unless_missing(if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) })
}

/// Creates a directory that everybody can read, with those above it.
pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Whether this open file is the one at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file that does not exist need not be removed.
pub(super) fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// What could not be done with a path.
pub(super) fn failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Failure + use<> {
    Failure::of(format!("cannot {what} `{}`", output::path(path)))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn a_lock_that_a_removal_deletes_still_excludes_others() {
        let place = tempfile::tempdir().unwrap();
        let dir = NodeDir { path: place.path().join("node") };
        let taken = AtomicBool::new(false);
        let change = || {
            for _ in 0..200 {
                let lock = dir.lock().unwrap();
                assert!(!taken.swap(true, Ordering::SeqCst), "two processes change the directory");
                taken.store(false, Ordering::SeqCst);
                dir.remove_all().unwrap();
                drop(lock);
            }
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(change);
            }
        });
        assert!(!dir.path.exists());
    }
}
