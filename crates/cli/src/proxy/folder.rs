//! The private folder of a running proxy: its kubeconfig and the socket for its owner.
//!
//! ```text
//! $XDG_RUNTIME_DIR/keyward/               or  $TMPDIR/keyward-UID/
//!   lock           held while folders are made or taken away
//!   proxy-PID/     with a number behind it where another pid namespace has the same PID
//!     lock         held while the proxy lives
//!     kubeconfig   for clients, 0600
//!     admin.sock   /metrics, /healthz, /status
//! ```
//!
//! What a killed proxy left behind lets nobody in, and the next start takes it away.

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use keyward_process::runtime;
use keyward_process::surroundings::Surroundings;

use crate::failure::Failure;

const PREFIX: &str = "proxy-";

/// A folder of our own, gone when dropped.
pub(crate) struct Folder {
    base: PathBuf,
    path: PathBuf,
    /// Held for as long as the folder is in use.
    _lock: File,
}

impl Folder {
    /// Makes one for this process.
    pub(crate) fn make(surroundings: &Surroundings) -> Result<Self, Failure> {
        let base = base(surroundings);
        let failed = |error: io::Error| unusable(&base, &error);
        private(&base).map_err(failed)?;
        // Nobody takes a folder away between its making and its lock.
        let all = lock_file(&base).map_err(failed)?;
        all.lock().map_err(failed)?;
        sweep(&base);
        let path = free(&base).map_err(failed)?;
        let locked =
            lock_file(&path).and_then(|lock| lock.try_lock().map(|()| lock).map_err(Into::into));
        match locked {
            Ok(lock) => Ok(Self { base, path, _lock: lock }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(failed(error))
            }
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// Does something that no other proxy of this user does at the same time.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let all = lock_file(&self.base).and_then(|all| all.lock().map(|()| all));
        let _all = all.map_err(|error| unusable(&self.base, &error))?;
        work()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("admin.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The sockets of all proxies of this user that run now, with their process ids.
pub(crate) fn running(surroundings: &Surroundings) -> Result<Vec<(u32, PathBuf)>, Failure> {
    let base = base(surroundings);
    private(&base).map_err(|error| unusable(&base, &error))?;
    if let Ok(all) = lock_file(&base)
        && all.lock().is_ok()
    {
        sweep(&base);
    }
    let mut found: Vec<(u32, PathBuf)> = folders(&base)
        .map(|(pid, path)| (pid, path.join("admin.sock")))
        .filter(|(_, socket)| socket.exists())
        .collect();
    found.sort();
    Ok(found)
}

fn unusable(base: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("the folder `{}` cannot be used", base.display()))
        .note("cause", error.to_string())
}

fn base(surroundings: &Surroundings) -> PathBuf {
    let folder = |name: &str| {
        let value = PathBuf::from(surroundings.var(name)?);
        value.is_absolute().then_some(value)
    };
    let temporary = folder("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let home = surroundings.home();
    runtime::directory(folder("XDG_RUNTIME_DIR").as_deref(), &temporary, home.as_deref())
}

/// Makes the folder if it is not there. It has to be ours and nobody else's: in `/tmp` anybody could
/// have made it before us.
fn private(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        // In a home, what is above it may be missing too.
        DirBuilder::new().recursive(true).mode(0o700).create(above)?;
    }
    match make(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(path)?;
    let ours = found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode().trailing_zeros() >= 6;
    if ours {
        unlock(path, &found, 0o700)
    } else {
        let message = "it is not a folder that only this user can read and write";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

/// Makes a folder of ours, whatever the umask would take from it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Gives us back what an umask took when somebody made it.
fn unlock(path: &Path, found: &Metadata, mode: u32) -> io::Result<()> {
    if found.mode() & mode == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes a folder with our number. What is still there after sweeping is of a proxy that lives, in
/// another pid namespace.
fn free(base: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    let mut path = base.join(format!("{PREFIX}{pid}"));
    for number in 1.. {
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = base.join(format!("{PREFIX}{pid}.{number}"));
            }
            made => return made.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Takes away what killed proxies left. To be called with the lock of all.
fn sweep(base: &Path) {
    for (_, path) in folders(base) {
        // Nothing can be taken out of one that its umask made of no use.
        if let Ok(found) = fs::symlink_metadata(&path) {
            let _ = unlock(&path, &found, 0o700);
        }
        if lock_file(&path).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn folders(base: &Path) -> impl Iterator<Item = (u32, PathBuf)> + use<> {
    fs::read_dir(base).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        let pid = name.to_str()?.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()?;
        Some((pid, entry.path()))
    })
}

fn lock_file(folder: &Path) -> io::Result<File> {
    let path = folder.join("lock");
    if let Ok(found) = fs::symlink_metadata(&path) {
        unlock(&path, &found, 0o600)?;
    }
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    // For the next who opens it, whatever the umask took from it.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use keyward_process::surroundings::Fixed;

    use super::*;

    #[test]
    fn proxies_that_start_at_once_do_not_take_each_others_folders() {
        let place = tempfile::tempdir().unwrap();
        let vars = vec![("XDG_RUNTIME_DIR".into(), place.path().into())];
        let surroundings = Surroundings::fixed(Fixed { vars, ..Fixed::default() });
        // All of one number, as in pid namespaces, and all of them alive.
        let folders: Vec<Folder> = thread::scope(|scope| {
            let make = || Folder::make(&surroundings).map_err(|f| f.message().to_owned()).unwrap();
            let making: Vec<_> = (0..16).map(|_| scope.spawn(make)).collect();
            making.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for folder in &folders {
            fs::write(folder.kubeconfig(), "").unwrap();
            fs::write(folder.socket(), "").unwrap();
        }
        let running = running(&surroundings).map_err(|f| f.message().to_owned()).unwrap();
        assert_eq!(running.len(), 16);
        assert!(running.iter().all(|(pid, _)| *pid == std::process::id()));
        let left = folders[0].path.clone();
        drop(folders);
        // One that was killed: nobody holds its lock.
        fs::create_dir(&left).unwrap();
        let next = Folder::make(&surroundings).map_err(|f| f.message().to_owned()).unwrap();
        assert_eq!(super::folders(&base(&surroundings)).count(), 1);
        drop(next);
    }
}
