//! A configuration that is reloaded when it changes: a broken new version is ignored, and removing
//! the providers switches them off.
//!
//! Nothing runs in the background: a request for the configuration checks the files, unless that
//! was done a moment ago. [`Reload`] decides when new content is complete.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use keyward_host::{Error, Observer, Reload, ReloadPace};
use keyward_process::{clock::SharedClock, lock};

use super::{
    Config, Reading,
    config::{Class, Faults, Files, Stage, list},
};

/// A configuration that is read again when its files change.
pub struct ReloadingConfig {
    path: PathBuf,
    reading: Reading,
    pace: ReloadPace,
    clock: SharedClock,
    observer: Arc<dyn Observer>,
    state: ArcSwap<State>,
    /// When to check the files again, in nanoseconds of the clock.
    due: AtomicU64,
    reload: Mutex<Reload>,
}

/// The state in force.
#[derive(Clone, Default)]
struct State {
    /// The configuration; without providers while they are switched off, `None` if there never was
    /// a valid one.
    config: Option<Arc<Config>>,
    /// What is wrong with newer files, which is why the older ones are still in force.
    faults: Option<Faults>,
}

impl ReloadingConfig {
    /// Reads the files for the first time. Missing or broken files are no error yet: they may be valid
    /// the next time. `reading` is how the kubelet's patterns are matched
    /// ([`Config::from_files_by`]).
    pub fn new(
        reading: Reading,
        path: impl Into<PathBuf>,
        pace: ReloadPace,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self::resume(None, reading, path, pace, clock, observer)
    }

    /// Like [`new`](Self::new), after an earlier process had this configuration in force: it stays so while the files
    /// are broken.
    pub fn resume(
        last_good: Option<Arc<Config>>,
        reading: Reading,
        path: impl Into<PathBuf>,
        pace: ReloadPace,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let path = path.into();
        let listed = path.clone();
        let reload = Reload::listed(move || files(&listed), pace.confirm, Arc::clone(&clock));
        let due = AtomicU64::new(nanos(clock.elapsed() + pace.every));
        let before = State { config: last_good, faults: None };
        let state = before.after(&path, reading);
        if let Some(config) = &state.config {
            observer.configured(Some(&config.hash), None);
        }
        let (state, reload) = (ArcSwap::from_pointee(state), Mutex::new(reload));
        Self { path, reading, pace, clock, observer, state, due, reload }
    }

    /// The configuration in force, after checking the files if it is time to. Fails only if there
    /// never was a valid one.
    pub fn config(&self) -> Result<Arc<Config>, Error> {
        self.look();
        let state = self.state.load();
        match (&state.config, &state.faults) {
            (Some(config), _) => Ok(Arc::clone(config)),
            (None, Some(faults)) => Err(faults.clone().into()),
            (None, None) => Ok(Arc::new(off())),
        }
    }

    /// What is wrong with the newest files, if they are not in force.
    pub fn faults(&self) -> Option<Faults> {
        self.state.load().faults.clone()
    }

    /// Checks the files if it is time to. Concurrent callers wait for the result: a lookup must not
    /// use a file that is long gone.
    fn look(&self) {
        let early = || nanos(self.clock.elapsed()) < self.due.load(Ordering::Acquire);
        if early() {
            return;
        }
        let mut reload = lock(&self.reload);
        if early() {
            return;
        }
        let before = self.state.load_full();
        if let Some(state) = reload.look(|| before.after(&self.path, self.reading)) {
            self.take(state, &before);
        }
        let pause = if reload.is_pending() { self.pace.confirm } else { self.pace.every };
        self.due.store(nanos(self.clock.elapsed() + pause), Ordering::Release);
    }

    fn take(&self, state: State, before: &State) {
        match (&state.faults, &state.config) {
            (Some(faults), _) => {
                tracing::warn!(path = %self.path.display(), %faults, "a broken configuration is ignored");
            }
            (None, Some(config)) => tracing::info!(
                path = %self.path.display(), hash = config.hash, providers = config.providers.len(),
                "the configuration of image credential providers has changed"
            ),
            (None, None) => {}
        }
        let (new, old) = (state.hash(), before.hash());
        if new != old {
            self.observer.configured(new, old);
        }
        self.state.store(Arc::new(state));
    }
}

impl State {
    /// The state in force after the files were read again.
    fn after(&self, path: &Path, reading: Reading) -> Self {
        let on = |config| Self { config: Some(Arc::new(config)), faults: None };
        let broken = |faults| Self { config: self.config.clone(), faults: Some(faults) };
        let files = match Files::read(path) {
            Ok(files) => files,
            // A file that never existed is more likely a mistake than a switch.
            Err(_) if is_removed(path) && self.config.is_some() => return on(off()),
            Err(faults) => return broken(faults),
        };
        match Config::from_files_by(&files, reading) {
            Ok(config) => on(config),
            Err(faults) if says_none(&faults) => {
                on(Config { providers: Vec::new(), hash: files.hash() })
            }
            Err(faults) => broken(faults),
        }
    }

    /// The hash; none without a file.
    fn hash(&self) -> Option<&str> {
        self.config.as_ref().map(|config| config.hash.as_str()).filter(|hash| !hash.is_empty())
    }
}

/// Whether the only problem is that there are no providers, which switches them off.
fn says_none(faults: &Faults) -> bool {
    faults.stage == Stage::Validate
        && faults.problems.iter().all(|p| p.class == Class::Required && p.field == "providers")
}

/// Whether the file was taken out of its directory. A directory that is missing, or a link that leads nowhere, is
/// more likely a fault, such as a volume that is not mounted yet.
fn is_removed(path: &Path) -> bool {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        && parent.unwrap_or(Path::new(".")).is_dir()
}

fn off() -> Config {
    Config { providers: Vec::new(), hash: String::new() }
}

/// The paths to watch: the file, or the directory and its files.
fn files(path: &Path) -> Vec<PathBuf> {
    let inside = if path.is_dir() { list(path).unwrap_or_default() } else { Vec::new() };
    [path.to_owned()].into_iter().chain(inside).collect()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
