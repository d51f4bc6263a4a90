//! A configuration that may change while it is used: picked up, kept when the new one is broken,
//! switched off and on again.
//!
//! Nothing runs in the background: whoever asks for the configuration looks at the files, if that
//! was not done a moment ago. A file that was replaced by renaming is whole, so it is taken at once.
//! One that was written in place may be half written, so it is taken when nobody has touched it for
//! a while: its times say so, or it was read twice with the same content.

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
use crate::{Error, clock::SharedClock, observer::Observer};

/// How often files are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The least time between two looks.
    pub every: Duration,
    /// How long a file must be left alone before it is taken for whole: the least age of what is read
    /// once, and the least time between the two readings that must be equal.
    pub confirm: Duration,
}

impl Default for Pace {
    /// Every second, and a tenth of one to confirm.
    fn default() -> Self {
        Self { every: Duration::from_secs(1), confirm: Duration::from_millis(100) }
    }
}

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
    state: Mutex<State>,
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

struct State {
    /// What was judged last.
    judged: Reading,
    /// What was read last and must be read once more.
    pending: Option<Reading>,
}

/// What stood in the files.
#[derive(Clone)]
struct Reading {
    content: Content,
    marks: Vec<Mark>,
    /// When anything was touched last, in milliseconds since 1970, if that can be told.
    touched: Option<i64>,
}

#[derive(Clone)]
enum Content {
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

    /// The same, with the kubelet's patterns read in another way ([`Config::from_files_by`]).
    pub fn by(
        reading: Patterns,
        path: impl Into<PathBuf>,
        pace: Pace,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let path = path.into();
        let judged = Reading::of(&path);
        let due = AtomicU64::new(nanos(clock.elapsed() + pace.every));
        let before = Standing { config: None, faults: None };
        let standing = judge(&judged.content, &before, &path, reading);
        if let Some(config) = &standing.config {
            observer.configured(Some(&config.hash), None);
        }
        let state = Mutex::new(State { judged, pending: None });
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
        let pause = if state.pending.is_some() { self.pace.confirm } else { self.pace.every };
        self.due.store(nanos(self.clock.elapsed() + pause), Ordering::Release);
    }

    fn read(&self, state: &mut State) {
        let reading = Reading::of(&self.path);
        if reading.content == state.judged.content {
            (state.judged, state.pending) = (reading, None);
            return;
        }
        let twice = state
            .pending
            .as_ref()
            .is_some_and(|p| p.content == reading.content && p.marks == reading.marks);
        let settled = reading.settled(self.clock.wall_millis(), self.pace.confirm);
        if twice || settled || reading.replaces(&state.judged) {
            self.take(&reading);
            (state.judged, state.pending) = (reading, None);
        } else {
            state.pending = Some(reading);
        }
    }

    fn take(&self, reading: &Reading) {
        let before = self.standing.load_full();
        let standing = judge(&reading.content, &before, &self.path, self.reading);
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
fn judge(content: &Content, before: &Standing, path: &Path, patterns: Patterns) -> Standing {
    let broken = |faults| Standing { config: before.config.clone(), faults: Some(faults) };
    match content {
        Content::Absent => match before.config {
            // A file that never was there is more likely a mistake than a switch.
            None => broken(absent(path)),
            Some(_) => Standing { config: Some(Arc::new(off())), faults: None },
        },
        Content::Unreadable(faults) => broken(faults.clone()),
        Content::Files(files) => match Config::from_files_by(files, patterns) {
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

impl Reading {
    /// Reads the files between two looks at their marks; if those differ, somebody is writing, and
    /// no later reading will be equal to this one.
    fn of(path: &Path) -> Self {
        let before = (marks(path), touched(path));
        let content = match Files::read(path) {
            Ok(files) => Content::Files(files),
            Err(_) if !path.exists() => Content::Absent,
            Err(faults) => Content::Unreadable(faults),
        };
        let after = (marks(path), touched(path));
        let steady = after == before;
        let (mut marks, touched) = after;
        if !steady {
            marks.push(Mark::unsteady());
        }
        Self { content, marks, touched: touched.filter(|_| steady) }
    }

    /// Whether everything was left alone for so long that nobody is in the middle of a change. Times
    /// to come, which another machine's clock may have set, say nothing.
    fn settled(&self, now: i64, confirm: Duration) -> bool {
        let least = i64::try_from(confirm.max(TICK).as_millis()).unwrap_or(i64::MAX);
        self.touched.is_some_and(|touched| now.saturating_sub(touched) > least)
    }

    /// Whether every file that differs from `old` was put there by renaming: another file than
    /// before, and not written since it got its name.
    fn replaces(&self, old: &Self) -> bool {
        let (Content::Files(new), Content::Files(was)) = (&self.content, &old.content) else {
            return false;
        };
        let count = new.iter().count();
        if self.marks.len() != count || old.marks.len() != was.iter().count() {
            return false;
        }
        if count != old.marks.len() {
            return false;
        }
        let pairs = new.iter().zip(was.iter()).zip(self.marks.iter().zip(&old.marks));
        pairs.into_iter().all(|(((path, bytes), (old_path, old_bytes)), (mark, old_mark))| {
            path == old_path && (bytes == old_bytes || mark.renamed_over(old_mark))
        })
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Files(a), Self::Files(b)) => a == b,
            (Self::Absent, Self::Absent) => true,
            (Self::Unreadable(a), Self::Unreadable(b)) => a.problems == b.problems,
            _ => false,
        }
    }
}

/// The clock of a file system is no finer than this.
const TICK: Duration = Duration::from_millis(20);

/// What tells a file from another one of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    inode: (u64, u64),
    written: (i64, i64),
    changed: (i64, i64),
}

impl Mark {
    fn unsteady() -> Self {
        Self { inode: (0, 0), written: (0, 0), changed: (0, 0) }
    }

    /// Renaming touches the inode after the last byte was written.
    fn renamed_over(&self, old: &Self) -> bool {
        self.inode != old.inode && self.changed > self.written
    }

    /// When its content or its name changed last, in milliseconds since 1970.
    fn touched(&self) -> i64 {
        let (seconds, nanos) = self.written.max(self.changed);
        // Some file systems keep whole seconds, or every other one.
        let later = if nanos == 0 { 2_000 } else { nanos / 1_000_000 };
        seconds.saturating_mul(1_000).saturating_add(later)
    }
}

/// The marks of the file, or of the files of the folder, in the order in which they are read.
fn marks(path: &Path) -> Vec<Mark> {
    if path.is_dir() {
        super::config::files_of(path).iter().filter_map(|path| mark(path)).collect()
    } else {
        mark(path).into_iter().collect()
    }
}

/// When the file was touched last, or the folder and its files; where there is none, when the folder
/// was that had it.
fn touched(path: &Path) -> Option<i64> {
    let times = |path: &Path| mark(path).map(|mark| mark.touched());
    if path.is_dir() {
        let files = super::config::files_of(path);
        let own = times(path)?;
        return files.iter().try_fold(own, |last, file| Some(last.max(times(file)?)));
    }
    if path.exists() {
        return times(path);
    }
    // A link to nothing: what happened happened elsewhere.
    if path.is_symlink() {
        return None;
    }
    let parent = path.parent()?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    parent.is_dir().then(|| times(parent)).flatten()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(unix)]
fn mark(path: &Path) -> Option<Mark> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(path).ok()?;
    Some(Mark {
        inode: (found.dev(), found.ino()),
        written: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// Where files have no numbers, every change must be read twice.
#[cfg(not(unix))]
fn mark(path: &Path) -> Option<Mark> {
    let found = std::fs::metadata(path).ok()?;
    let written = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let seconds = i64::try_from(written.as_secs()).ok()?;
    let written = (seconds, i64::from(written.subsec_nanos()));
    Some(Mark { inode: (0, 0), written, changed: written })
}
