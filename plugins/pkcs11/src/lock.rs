//! Lets one process at a time use a module.
//!
//! Several modules (`SoftHSM` with its file store is one) lose their token when processes open it at the
//! same time. A lock on a file in the user's runtime directory prevents that. The proxy of p11-kit loads
//! all modules, so it excludes them all.

use std::{
    cell::Cell,
    fs::{self, DirBuilder, File},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use keyward_plugin::Refusal;
use keyward_process::{runtime, surroundings::Surroundings};
use sha2::{Digest, Sha256};

/// The lock of one module.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Locked exclusively by the proxy, shared by all others.
    all: File,
    /// Locked exclusively; the proxy needs none.
    own: Option<File>,
    /// Never unlocked before the process ends.
    kept: Cell<bool>,
}

/// A held lock. Others wait until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a>(&'a Lock);

impl Lock {
    /// Opens the lock files, and creates them if needed.
    pub(crate) fn of(module: &Path) -> Result<Self, Refusal> {
        let directory = directory()?;
        let all = open(&directory.join("pkcs11.lock"))?;
        let is_proxy = module.file_stem().is_some_and(|name| name == "p11-kit-proxy");
        let own = if is_proxy {
            None
        } else {
            // One module, one lock, however its path is spelt.
            let path = fs::canonicalize(module).unwrap_or_else(|_| module.to_owned());
            let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
            let name = digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
            Some(open(&directory.join(format!("pkcs11-{name:016x}.lock")))?)
        };
        Ok(Self { all, own, kept: Cell::new(false) })
    }

    /// Waits for the lock.
    pub(crate) fn hold(&self) -> Result<Held<'_>, Refusal> {
        let held = Held(self);
        if self.kept.get() {
            return Ok(held);
        }
        let outcome = match &self.own {
            None => self.all.lock(),
            Some(own) => self.all.lock_shared().and_then(|()| own.lock()),
        };
        outcome.map_err(|e| Refusal::failed(format!("cannot wait for other signers: {e}")))?;
        Ok(held)
    }
}

impl Held<'_> {
    /// Holds the lock until the end of the process. The files are closed, and so unlocked, after the
    /// module was finalized.
    pub(crate) fn keep(&self) {
        self.0.kept.set(true);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.0.kept.get() {
            return;
        }
        // If this fails, the end of the process unlocks the files.
        if let Some(own) = &self.0.own {
            let _ = own.unlock();
        }
        let _ = self.0.all.unlock();
    }
}

fn open(path: &Path) -> Result<File, Refusal> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options
        .open(path)
        .map_err(|e| Refusal::failed(format!("cannot open the lock `{}`: {e}", path.display())))
}

/// The user's own directory for locks, created if needed.
fn directory() -> Result<PathBuf, Refusal> {
    let surroundings = Surroundings::process();
    let runtime = surroundings.var("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| runtime::is_ours(path));
    let home = surroundings.home();
    let directory = runtime::directory(runtime.as_deref(), &std::env::temp_dir(), home.as_deref());
    // It may exist already; then it must be ours.
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    if runtime::is_ours(&directory) {
        return Ok(directory);
    }
    Err(Refusal::failed(format!(
        "`{}` is not a directory that belongs to this user alone",
        directory.display()
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn lock_in(directory: &Path, own: Option<&str>) -> Lock {
        Lock {
            all: open(&directory.join("all")).unwrap(),
            own: own.map(|name| open(&directory.join(name)).unwrap()),
            kept: Cell::new(false),
        }
    }

    fn is_free(lock: &Lock) -> bool {
        let free = match &lock.own {
            None => lock.all.try_lock().is_ok(),
            Some(own) => lock.all.try_lock_shared().is_ok() && own.try_lock().is_ok(),
        };
        drop(Held(lock));
        free
    }

    #[test]
    fn a_module_excludes_itself_and_the_proxy_but_no_other_module() {
        let directory = tempfile::tempdir().unwrap();
        let soft = lock_in(directory.path(), Some("soft"));
        let held = soft.hold().unwrap();
        assert!(!is_free(&lock_in(directory.path(), Some("soft"))));
        assert!(!is_free(&lock_in(directory.path(), None)));
        assert!(is_free(&lock_in(directory.path(), Some("card"))));
        drop(held);
        assert!(is_free(&lock_in(directory.path(), Some("soft"))));
        assert!(is_free(&lock_in(directory.path(), None)));
    }

    #[test]
    fn a_lock_that_is_kept_is_held_until_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let soft = lock_in(directory.path(), Some("soft"));
        soft.hold().unwrap().keep();
        drop(soft.hold().unwrap());
        assert!(!is_free(&lock_in(directory.path(), Some("soft"))));
        drop(soft);
        assert!(is_free(&lock_in(directory.path(), Some("soft"))));
    }

    #[test]
    fn the_proxy_excludes_every_module() {
        let directory = tempfile::tempdir().unwrap();
        let proxy = lock_in(directory.path(), None);
        let _held = proxy.hold().unwrap();
        assert!(!is_free(&lock_in(directory.path(), Some("card"))));
    }
}
