//! The private directory of a running proxy: its kubeconfig and the socket for its owner.
//!
//! ```text
//! $XDG_RUNTIME_DIR/keyward/               or  $TMPDIR/keyward-UID/
//!   lock           held while directories are made or removed
//!   proxy-PID/     with a number behind it where another pid namespace has the same PID
//!     lock         held while the proxy lives
//!     kubeconfig   for clients, 0600
//!     admin.sock   /metrics, /healthz, /status, /grants, /dashboard
//! ```
//!
//! Files left by a killed proxy admit nobody, and the next start removes them.

use std::{
    fs::{self, DirBuilder, File, Metadata, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_process::{runtime, surroundings::Surroundings};
use keyward_protocol::{Secret, text::inline};
use serde_json::Value;

use crate::{Error, service};

const PREFIX: &str = "proxy-";

/// How long a proxy may take to answer. It answers from memory, so a slower one is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The proxy's own directory, removed when dropped.
pub(crate) struct Directory {
    base: PathBuf,
    path: PathBuf,
    /// Held for as long as the directory is in use.
    _lock: File,
}

impl Directory {
    /// Creates the directory of this process.
    pub(crate) fn make(surroundings: &Surroundings) -> Result<Self, Error> {
        let base = base(surroundings);
        let failed = |error: io::Error| unusable(&base, &error);
        private(&base).map_err(failed)?;
        // Nobody may remove a directory between its creation and its lock.
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

    /// Runs `work` while no other proxy of this user does the same.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let all = lock_file(&self.base).and_then(|all| all.lock().map(|()| all));
        let _all = all.map_err(|error| unusable(&self.base, &error))?;
        work()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("admin.sock")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A running proxy of this user.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The proxy's process id.
    pub pid: u32,
    socket: PathBuf,
}

impl Running {
    /// The contexts served, their users and expiries; docs/cli.md has the schema. Fails if the
    /// proxy does not answer within five seconds.
    pub fn status(&self) -> io::Result<Value> {
        Ok(serde_json::from_str(&self.ask("GET /status")?)?)
    }

    /// Puts grants in force that were created, and ends those that were revoked, before it returns. Fails
    /// if the proxy does not answer within five seconds.
    pub fn reload_grants(&self) -> io::Result<()> {
        self.ask("POST /grants").map(drop)
    }

    /// A link that opens the proxy's dashboard in a browser of this user, once and within a minute.
    pub fn dashboard(&self) -> io::Result<Secret> {
        let answer: Value = serde_json::from_str(&self.ask("POST /dashboard")?)?;
        let link = answer["link"].as_str().ok_or_else(|| io::Error::other("no link"))?;
        Ok(Secret::new(link))
    }

    fn ask(&self, request: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(format!("{request} HTTP/1.0\r\nHost: keyward\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            // Versions differ while a program is being replaced.
            Some("404" | "405") => Err(io::Error::other("the proxy is of another version")),
            Some(_) => Err(io::Error::other(inline(body.trim()))),
            None => Err(io::Error::other("no answer")),
        }
    }
}

/// Finds the running proxies of this user.
pub fn running(surroundings: &Surroundings) -> Result<Vec<Running>, Error> {
    let base = base(surroundings);
    private(&base).map_err(|error| unusable(&base, &error))?;
    if let Ok(all) = lock_file(&base)
        && all.lock().is_ok()
    {
        sweep(&base);
    }
    let mut found: Vec<Running> = directories(&base)
        .map(|(pid, path)| Running { pid, socket: path.join("admin.sock") })
        .filter(|running| running.socket.exists())
        .collect();
    found.sort();
    Ok(found)
}

pub(crate) fn unusable(base: &Path, error: &io::Error) -> Error {
    Error::caused(format!("the directory `{}` cannot be used", base.display()), error)
}

fn base(surroundings: &Surroundings) -> PathBuf {
    let directory = |name: &str| {
        let value = PathBuf::from(surroundings.var(name)?);
        value.is_absolute().then_some(value)
    };
    let temporary = directory("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let home = surroundings.home();
    runtime::directory(directory("XDG_RUNTIME_DIR").as_deref(), &temporary, home.as_deref())
}

/// Creates the directory unless it exists. It must belong to this user alone: in `/tmp` anybody
/// could have created it first.
fn private(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        // In a home directory, its parents may be missing too.
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
        let message = "it is not a directory that only this user can read and write";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

/// Creates a directory with full access for us, whatever the umask.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Restores the access that a umask removed when the directory was created.
fn unlock(path: &Path, found: &Metadata, mode: u32) -> io::Result<()> {
    if found.mode() & mode == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Creates a directory with our process id. One that exists after sweeping belongs to a live proxy
/// in another pid namespace.
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

/// Removes the directories of killed proxies. The caller holds the common lock.
fn sweep(base: &Path) {
    for (_, path) in directories(base) {
        // Nothing can be removed from a directory that a umask made inaccessible.
        if let Ok(found) = fs::symlink_metadata(&path) {
            let _ = unlock(&path, &found, 0o700);
        }
        if lock_file(&path).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn directories(base: &Path) -> impl Iterator<Item = (u32, PathBuf)> + use<> {
    fs::read_dir(base).into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name();
        let pid = name.to_str()?.strip_prefix(PREFIX)?.split('.').next()?.parse().ok()?;
        Some((pid, entry.path()))
    })
}

fn lock_file(directory: &Path) -> io::Result<File> {
    let path = directory.join("lock");
    if let Ok(found) = fs::symlink_metadata(&path) {
        unlock(&path, &found, 0o600)?;
    }
    let file = service::lock_file(&path)?;
    // For the next one to open it, whatever the umask.
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
    fn proxies_that_start_at_once_do_not_take_each_others_directories() {
        let place = tempfile::tempdir().unwrap();
        let vars = vec![("XDG_RUNTIME_DIR".into(), place.path().into())];
        let surroundings = Surroundings::fixed(Fixed { vars, ..Fixed::default() });
        // All with the same process id, as in several pid namespaces, and all alive.
        let directories: Vec<Directory> = thread::scope(|scope| {
            let make =
                || Directory::make(&surroundings).map_err(|f| f.message().to_owned()).unwrap();
            let making: Vec<_> = (0..16).map(|_| scope.spawn(make)).collect();
            making.into_iter().map(|one| one.join().unwrap()).collect()
        });
        for directory in &directories {
            fs::write(directory.kubeconfig(), "").unwrap();
            fs::write(directory.socket(), "").unwrap();
        }
        let running = running(&surroundings).map_err(|f| f.message().to_owned()).unwrap();
        assert_eq!(running.len(), 16);
        assert!(running.iter().all(|one| one.pid == std::process::id()));
        let left = directories[0].path.clone();
        drop(directories);
        // One that was killed: nobody holds its lock.
        fs::create_dir(&left).unwrap();
        let next = Directory::make(&surroundings).map_err(|f| f.message().to_owned()).unwrap();
        assert_eq!(super::directories(&base(&surroundings)).count(), 1);
        drop(next);
    }
}
