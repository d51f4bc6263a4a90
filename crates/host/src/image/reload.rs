//! A configuration that may change while it is used: picked up, kept when the new one is broken,
//! switched off and on again.
//!
//! Nothing runs in the background: whoever asks for the configuration looks at the files, if that
//! was not done a moment ago. [`crate::reload`] says when new content is whole.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;

use super::{
    Config, Reading as Patterns,
    config::{Class, Faults, Files, Stage},
};
use keyward_process::clock::SharedClock;

use crate::{
    Error,
    observer::Observer,
    reload::{self, Content, Mark, Pace, Settle, Snapshot, mark},
};

/// A configuration and its files.
pub struct Follow {
    path: PathBuf,
    reading: Patterns,
    pace: Pace,
    clock: SharedClock,
    observer: Arc<dyn Observer>,
    standing: ArcSwap<Standing>,
    /// When it is time to look again, in nanoseconds of the clock.
    due: AtomicU64,
    state: Mutex<Settle<Text>>,
}

/// What is in force.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The configuration; without providers while they are switched off, `None` when there never was
    /// a good one.
    pub config: Option<Arc<Config>>,
    /// What is wrong with the newer files, because of which the older ones are still in force.
    pub faults: Option<Faults>,
}

#[derive(Clone)]
enum Text {
    Files(Files),
    /// There is no such file.
    Absent,
    /// There is something that cannot be read.
    Unreadable(Faults),
}

impl Follow {
    /// Reads the files for the first time. That they are missing or broken is not an error yet: they
    /// may be good the next time.
    pub fn new(
        path: impl Into<PathBuf>,
        pace: Pace,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self::by(Patterns::Kubelet, path, pace, clock, observer)
    }

    /// Reads the files for the first time, like [`new`](Self::new), but matches the kubelet's
    /// patterns in another way ([`Config::from_files_by`]).
    pub fn by(
        reading: Patterns,
        path: impl Into<PathBuf>,
        pace: Pace,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let path = path.into();
        let judged = snapshot(&path);
        let due = AtomicU64::new(nanos(clock.elapsed() + pace.every));
        let before = Standing { config: None, faults: None };
        let standing = judge(&judged.content, &before, &path, reading);
        if let Some(config) = &standing.config {
            observer.configured(Some(&config.hash), None);
        }
        let state = Mutex::new(Settle::new(judged));
        Self {
            path,
            reading,
            pace,
            clock,
            observer,
            standing: ArcSwap::from_pointee(standing),
            due,
            state,
        }
    }

    /// The configuration in force, after a look at the files if it is time for one. Fails only when
    /// there never was a good one.
    pub fn config(&self) -> Result<Arc<Config>, Error> {
        self.look();
        let standing = self.standing.load();
        match (&standing.config, &standing.faults) {
            (Some(config), _) => Ok(Arc::clone(config)),
            (None, Some(faults)) => Err(faults.clone().into()),
            (None, None) => Ok(Arc::new(off())),
        }
    }

    /// What is in force, and what is wrong with what is not.
    pub fn standing(&self) -> Arc<Standing> {
        self.standing.load_full()
    }

    /// Looks at the files if it is time. Whoever comes while another looks waits for what it finds:
    /// a lookup must not go by a file that was gone long before.
    fn look(&self) {
        let early = || nanos(self.clock.elapsed()) < self.due.load(Ordering::Acquire);
        if early() {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if early() {
            return;
        }
        self.read(&mut state);
        let pause = if state.is_pending() { self.pace.confirm } else { self.pace.every };
        self.due.store(nanos(self.clock.elapsed() + pause), Ordering::Release);
    }

    fn read(&self, state: &mut Settle<Text>) {
        let seen = snapshot(&self.path);
        if state.offer(&seen, self.clock.wall_millis(), self.pace.confirm) {
            self.take(&seen.content);
            state.take(seen);
        }
    }

    fn take(&self, text: &Text) {
        let before = self.standing.load_full();
        let standing = judge(text, &before, &self.path, self.reading);
        match (&standing.faults, &standing.config) {
            (Some(faults), _) => {
                tracing::warn!(path = %self.path.display(), %faults, "a broken configuration is ignored");
            }
            (None, Some(config)) => tracing::info!(
                path = %self.path.display(), hash = config.hash, providers = config.providers.len(),
                "the configuration of image credential providers has changed"
            ),
            (None, None) => {}
        }
        // Without a file there is no hash either.
        let hash = |standing: &Standing| {
            standing.config.as_ref().map(|c| c.hash.clone()).filter(|hash| !hash.is_empty())
        };
        let (new, old) = (hash(&standing), hash(&before));
        if new != old {
            self.observer.configured(new.as_deref(), old.as_deref());
        }
        self.standing.store(Arc::new(standing));
    }
}

/// What is in force once this was read.
fn judge(content: &Text, before: &Standing, path: &Path, patterns: Patterns) -> Standing {
    let broken = |faults| Standing { config: before.config.clone(), faults: Some(faults) };
    match content {
        Text::Absent => match before.config {
            // A file that never was there is more likely a mistake than a switch.
            None => broken(absent(path)),
            Some(_) => Standing { config: Some(Arc::new(off())), faults: None },
        },
        Text::Unreadable(faults) => broken(faults.clone()),
        Text::Files(files) => match Config::from_files_by(files, patterns) {
            Ok(config) => Standing { config: Some(Arc::new(config)), faults: None },
            Err(faults) if says_none(&faults) => {
                let config = Config { providers: Vec::new(), hash: files.hash() };
                Standing { config: Some(Arc::new(config)), faults: None }
            }
            Err(faults) => broken(faults),
        },
    }
}

/// Whether nothing is wrong but that there are no providers, which switches them off.
fn says_none(faults: &Faults) -> bool {
    faults.stage == Stage::Validate
        && faults.problems.iter().all(|p| p.class == Class::Required && p.field == "providers")
}

fn off() -> Config {
    Config { providers: Vec::new(), hash: String::new() }
}

fn absent(path: &Path) -> Faults {
    Files::read(path).err().unwrap_or_else(|| Faults { stage: Stage::Read, problems: Vec::new() })
}

fn snapshot(path: &Path) -> Snapshot<Text> {
    let read = || match Files::read(path) {
        Ok(files) => Text::Files(files),
        Err(_) if !path.exists() => Text::Absent,
        Err(faults) => Text::Unreadable(faults),
    };
    Snapshot::of(|| (marks(path), touched(path)), read)
}

impl Content for Text {
    fn same(&self, old: &Self) -> Option<Vec<bool>> {
        let (Self::Files(new), Self::Files(old)) = (self, old) else { return None };
        if new.iter().count() != old.iter().count() {
            return None;
        }
        let pairs = new.iter().zip(old.iter());
        pairs.map(|(new, old)| (new.0 == old.0).then(|| new.1 == old.1)).collect()
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Files(a), Self::Files(b)) => a == b,
            (Self::Absent, Self::Absent) => true,
            (Self::Unreadable(a), Self::Unreadable(b)) => a.problems == b.problems,
            _ => false,
        }
    }
}

/// The marks of the file, or of the files of the folder, in the order in which they are read.
fn marks(path: &Path) -> Vec<Option<Mark>> {
    if path.is_dir() {
        super::config::files_of(path).iter().map(|path| mark(path)).collect()
    } else {
        vec![mark(path)]
    }
}

/// When the file was touched last, or the directory and its files.
fn touched(path: &Path) -> Option<i64> {
    if !path.is_dir() {
        return reload::touched(path);
    }
    let files = super::config::files_of(path);
    let times = |path: &Path| mark(path).map(|mark| mark.touched());
    files.iter().try_fold(times(path)?, |last, file| Some(last.max(times(file)?)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
