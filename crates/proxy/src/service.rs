//! A proxy that the agent starts when a client needs it: its settings, and the files that outlive it.
//!
//! ```text
//! $XDG_STATE_HOME/keyward/proxy/    by default ~/.local/state/keyward/proxy
//!   lock             held while a service is made or changed
//!   NAME/
//!     settings.json  the kubeconfig that it serves, and how
//!     kubeconfig     for clients; its path never changes
//!     listener.pem   the listener's certificate and key, and who signed it
//!     lock           held while a proxy listens
//!     grants/        what each grant allows; see `grants::store`
//! ```
//!
//! The listener's key stays the same, so that a kubeconfig that a client has already read is still
//! right after a restart. It lets nobody in: clients need a certificate of the running proxy, and
//! those are only in memory.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_process::{
    file::{self, Limits},
    surroundings::Surroundings,
};
use serde::{Deserialize, Serialize};

use crate::{Error, directory::unusable};

/// The settings of a service. They hold no secret.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct ServiceSettings {
    /// The files of the kubeconfig, in the order in which they are merged.
    pub kubeconfig: Vec<PathBuf>,
    /// The kuberc, if it is not the usual one.
    pub kuberc: Option<PathBuf>,
    /// What plugins see of the environment.
    pub environment: Vec<(String, String)>,
    /// The client's program in the written kubeconfig, with its path.
    pub client: String,
    /// Writes keys into the kubeconfig, for clients that cannot run programs.
    pub static_keys: bool,
    /// Ends after so many seconds without a request.
    pub idle_seconds: u64,
    /// Forwards requests that carry their own `Authorization`.
    pub allow_authorization: bool,
    /// Forwards requests that impersonate another user.
    pub allow_impersonation: bool,
    /// Also gets a new credential when a server answers 403.
    pub refresh_on_403: bool,
}

/// A service of this user.
#[derive(Clone)]
pub struct Service {
    name: String,
    directory: PathBuf,
    settings: ServiceSettings,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Service {
    /// The services of this user, by name.
    pub fn all(surroundings: &Surroundings) -> Vec<Self> {
        let Some(base) = base(surroundings) else { return Vec::new() };
        let entries = fs::read_dir(&base).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<_> = names.filter_map(|name| Self::read(&base, &name)).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// The service with this name.
    pub fn named(surroundings: &Surroundings, name: &str) -> Option<Self> {
        if name.contains('/') || name.starts_with('.') {
            return None;
        }
        Self::read(&base(surroundings)?, name)
    }

    /// The service of a kubeconfig, given the files that are merged: the user's own, or the one that
    /// the service wrote.
    pub fn of_kubeconfig(surroundings: &Surroundings, files: &[PathBuf]) -> Option<Self> {
        let all = Self::all(surroundings);
        let written = |one: &&Self| matches!(files, [file] if same(file, &one.kubeconfig()));
        let found = all.iter().find(written);
        found.or_else(|| all.iter().find(|one| one.settings.kubeconfig == files)).cloned()
    }

    /// Makes a service, or changes the settings of the one that has the same kubeconfig.
    pub fn register(surroundings: &Surroundings, settings: ServiceSettings) -> Result<Self, Error> {
        let base = base(surroundings).ok_or_else(|| {
            Error::failed("no directory for the proxy's files").hint("set `HOME`")
        })?;
        let failed = |error: io::Error| unusable(&base, &error);
        private(&base).map_err(failed)?;
        let _alone = lock_file(&base.join("lock"))
            .and_then(|lock| lock.lock().map(|()| lock))
            .map_err(failed)?;
        let known = Self::all(surroundings);
        let found = known.into_iter().find(|one| one.settings.kubeconfig == settings.kubeconfig);
        let name = match found {
            Some(service) if service.settings == settings => return Ok(service),
            Some(service) => service.name,
            None => free_name(&base, &settings.kubeconfig),
        };
        let directory = base.join(&name);
        private(&directory).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&settings).map_err(|e| failed(e.into()))?;
        write_private(&directory.join("settings.json"), &text).map_err(failed)?;
        Ok(Self { name, directory, settings })
    }

    fn read(base: &Path, name: &str) -> Option<Self> {
        let directory = base.join(name);
        let text = file::read(&directory.join("settings.json"), &Limits::GIVEN.regular()).ok()?;
        let settings = serde_json::from_slice(&text).ok()?;
        Some(Self { name: name.to_owned(), directory, settings })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings.
    pub fn settings(&self) -> &ServiceSettings {
        &self.settings
    }

    /// The clients' kubeconfig. Its path never changes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// After how long without a request the proxy ends.
    pub fn idle_limit(&self) -> Duration {
        Duration::from_secs(self.settings.idle_seconds)
    }

    /// The directory of its grants' rules.
    pub(crate) fn grants(&self) -> PathBuf {
        self.directory.join("grants")
    }

    /// The file of the listener's certificate and key, and of who signed it.
    pub(crate) fn listener_path(&self) -> PathBuf {
        self.directory.join("listener.pem")
    }

    /// The right to listen; `None` while another process has it.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        let lock = lock_file(&self.directory.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// `$XDG_STATE_HOME/keyward/proxy`.
fn base(surroundings: &Surroundings) -> Option<PathBuf> {
    Some(crate::ports::directory(surroundings)?.join("proxy"))
}

/// A name for a service of these files: that of the first one.
fn free_name(base: &Path, files: &[PathBuf]) -> String {
    let file = files.first().and_then(|file| file.file_name());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String =
        file.unwrap_or_default().to_string_lossy().chars().map(plain).take(32).collect();
    // It is a word on the command line of the proxy, and no flag.
    let name = match name.trim_start_matches('-') {
        "" => "config".to_owned(),
        name => name.to_owned(),
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !base.join(name).exists() && name != "lock").unwrap_or(name)
}

/// Whether both are the same file.
fn same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| Some(one) == real(other))
}

/// Creates a directory that only this user can enter.
fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Opens a file to lock, and creates it if need be.
pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// Writes a file that only this user can read. If the program or the machine crashes, the file is the old one or the
/// whole new one.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use keyward_process::surroundings::Fixed;

    use super::*;

    fn home(path: &Path) -> Surroundings {
        let vars = vec![("HOME".into(), path.into())];
        Surroundings::fixed(Fixed { vars, ..Fixed::default() })
    }

    fn of(files: &[&str]) -> ServiceSettings {
        ServiceSettings {
            kubeconfig: files.iter().map(PathBuf::from).collect(),
            ..ServiceSettings::default()
        }
    }

    #[test]
    fn a_kubeconfig_has_one_service_whose_path_stays_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let here = home(directory.path());
        let first = Service::register(&here, of(&["/a/config"])).unwrap();
        let other = Service::register(&here, of(&["/b/config"])).unwrap();
        assert_eq!((first.name(), other.name()), ("config", "config-2"));
        let changed = ServiceSettings { static_keys: true, ..of(&["/a/config"]) };
        let again = Service::register(&here, changed.clone()).unwrap();
        assert_eq!(again.kubeconfig(), first.kubeconfig());
        let found = Service::of_kubeconfig(&here, &["/a/config".into()]).unwrap();
        assert!(found.settings() == &changed, "the new settings count");
        // In a shell that uses the proxy, its kubeconfig stands for the one that it serves.
        let found = Service::of_kubeconfig(&here, &[other.kubeconfig()]).unwrap();
        assert_eq!(found.name(), "config-2");
        assert!(Service::of_kubeconfig(&here, &["/c".into()]).is_none());
        assert_eq!(Service::all(&here).len(), 2);
    }

    #[test]
    fn only_one_process_has_the_right_to_listen() {
        let directory = tempfile::tempdir().unwrap();
        let service = Service::register(&home(directory.path()), of(&["/a/config"])).unwrap();
        let held = service.try_lock().unwrap().unwrap();
        assert!(service.try_lock().unwrap().is_none());
        drop(held);
        assert!(service.try_lock().unwrap().is_some());
    }

    #[test]
    fn a_name_is_a_name_of_one_directory() {
        let directory = tempfile::tempdir().unwrap();
        let here = home(directory.path());
        assert!(Service::named(&here, "../x").is_none());
        let odd = Service::register(&here, of(&["/a/my config.yaml"])).unwrap();
        assert_eq!(odd.name(), "my-config-yaml");
        let flag = Service::register(&here, of(&["/a/--attended"])).unwrap();
        assert_eq!(flag.name(), "attended");
        let lock = Service::register(&here, of(&["/a/lock"])).unwrap();
        assert_eq!(lock.name(), "lock-2");
    }
}
