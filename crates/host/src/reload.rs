//! Files that may change while they are used: which new content is whole, and can be taken?
//!
//! A file that was replaced by renaming is whole, so it is taken at once. One that was written in
//! place may be half written, so it is taken when nobody has touched it for a while: its times say so,
//! or it was read twice with the same content.
//!
//! [`Reload`] applies this to a list of files, and [`image::Follow`](crate::image::Follow) to the
//! configuration of image credential providers. What is broken about the new content, and what
//! is in force meanwhile, is for those who read it to say.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_process::file::{self, Limits};
use sha2::{Digest as _, Sha256};

use keyward_process::clock::SharedClock;

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

/// A list of files that is looked at again and again. Files that are not there count too: they may come.
pub struct Reload {
    paths: Vec<PathBuf>,
    confirm: Duration,
    clock: SharedClock,
    settle: Settle<Digests>,
}

/// The digest of each file, in the order of the list; `None` for one that cannot be read.
#[derive(Clone, PartialEq, Eq)]
struct Digests(Vec<Option<[u8; 32]>>);

impl Reload {
    /// Takes what the files say now as known. Files that are there and no regular files (a pipe of a
    /// shell) can be read once only, and are left out.
    pub fn new(paths: Vec<PathBuf>, confirm: Duration, clock: SharedClock) -> Self {
        let regular = |path: &PathBuf| fs::metadata(path).map_or(true, |found| found.is_file());
        let paths: Vec<PathBuf> = paths.into_iter().filter(regular).collect();
        let settle = Settle::new(snapshot(&paths));
        Self { paths, confirm, clock, settle }
    }

    /// The files that are followed.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Looks at the files. Returns whether they say something else than what was taken last, and
    /// are whole; they are then known. `load` reads them, in whatever way: what it returns is given
    /// back if nobody touched a file meanwhile, else the next look tries again.
    pub fn look<T>(&mut self, load: impl FnOnce() -> T) -> Option<T> {
        if self.settle.is_known(|| marks(&self.paths)) {
            return None;
        }
        let seen = snapshot(&self.paths);
        if !self.settle.offer(&seen, self.clock.wall_millis(), self.confirm) {
            return None;
        }
        let loaded = load();
        let steady = marks(&self.paths) == seen.marks;
        steady.then(|| {
            self.settle.take(seen);
            loaded
        })
    }

    /// Whether something has changed that is not taken for whole yet, so that the next look should
    /// come soon.
    pub fn is_pending(&self) -> bool {
        self.settle.is_pending()
    }
}

fn snapshot(paths: &[PathBuf]) -> Snapshot<Digests> {
    let digest = |path: &PathBuf| {
        file::read(path, &Limits::GIVEN.regular())
            .ok()
            .map(|bytes| Sha256::digest(&bytes[..]).into())
    };
    Snapshot::of(
        || {
            (
                marks(paths),
                paths.iter().try_fold(i64::MIN, |last, path| Some(last.max(touched(path)?))),
            )
        },
        || Digests(paths.iter().map(digest).collect()),
    )
}

/// A mark for each path of a list.
fn marks(paths: &[PathBuf]) -> Vec<Option<Mark>> {
    paths.iter().map(|path| mark(path)).collect()
}

impl Content for Digests {
    fn same(&self, old: &Self) -> Option<Vec<bool>> {
        let pairs = self.0.iter().zip(&old.0);
        // What comes or goes is no renaming over another file.
        pairs.map(|(new, old)| (new.is_some() == old.is_some()).then(|| new == old)).collect()
    }
}

/// What stands in files.
pub(crate) trait Content: Clone + PartialEq {
    /// For each file, in the order of the marks, whether it says the same as in `old`; `None` where
    /// the files are not the same ones.
    fn same(&self, old: &Self) -> Option<Vec<bool>>;
}

/// Decides when new content is whole.
pub(crate) struct Settle<C> {
    /// What was taken last.
    taken: Snapshot<C>,
    /// What was read last and must be read once more.
    pending: Option<Snapshot<C>>,
    /// Whether what was taken could have changed since without another mark.
    fresh: bool,
}

impl<C: Content> Settle<C> {
    pub(crate) fn new(taken: Snapshot<C>) -> Self {
        Self { taken, pending: None, fresh: true }
    }

    /// Whether nothing can have changed since the last look, so that nothing need be read.
    fn is_known(&self, marks: impl FnOnce() -> Vec<Option<Mark>>) -> bool {
        !self.fresh && self.pending.is_none() && marks() == self.taken.marks
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether this is something else than what was taken last, and whole. If so, whoever uses it
    /// says so by [`Settle::take`].
    pub(crate) fn offer(&mut self, seen: &Snapshot<C>, now: i64, confirm: Duration) -> bool {
        if seen.content == self.taken.content {
            self.fresh = !seen.settled(now, confirm);
            (self.taken, self.pending) = (seen.clone(), None);
            return false;
        }
        let twice = self
            .pending
            .as_ref()
            .is_some_and(|p| p.content == seen.content && p.marks == seen.marks);
        if twice || seen.settled(now, confirm) || seen.replaces(&self.taken) {
            return true;
        }
        self.pending = Some(seen.clone());
        false
    }

    pub(crate) fn take(&mut self, seen: Snapshot<C>) {
        (self.taken, self.pending, self.fresh) = (seen, None, true);
    }
}

/// What stood in files at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot<C> {
    pub(crate) content: C,
    marks: Vec<Option<Mark>>,
    /// When anything was touched last, in milliseconds since 1970, if that can be told.
    touched: Option<i64>,
}

impl<C: Content> Snapshot<C> {
    /// Reads between two looks at the marks; if those differ, somebody is writing, and no later reading
    /// will be equal to this one.
    pub(crate) fn of(
        look: impl Fn() -> (Vec<Option<Mark>>, Option<i64>),
        read: impl FnOnce() -> C,
    ) -> Self {
        let before = look();
        let content = read();
        let after = look();
        let steady = after == before;
        let (mut marks, touched) = after;
        if !steady {
            marks.push(Some(Mark::unsteady()));
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
        let Some(same) = self.content.same(&old.content) else { return false };
        let lengths = [self.marks.len(), old.marks.len()];
        lengths.iter().all(|length| *length == same.len())
            && same.iter().zip(self.marks.iter().zip(&old.marks)).all(|(same, pair)| {
                *same || matches!(pair, (Some(mark), Some(old_mark)) if mark.renamed_over(old_mark))
            })
    }
}

/// The clock of a file system is no finer than this.
const TICK: Duration = Duration::from_millis(20);

/// What tells a file from another one of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
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
    pub(crate) fn touched(&self) -> i64 {
        let (seconds, nanos) = self.written.max(self.changed);
        // Some file systems keep whole seconds, or every other one.
        let later = if nanos == 0 { 2_000 } else { nanos / 1_000_000 };
        seconds.saturating_mul(1_000).saturating_add(later)
    }
}

/// When a file was touched last; where there is none, when the directory was that had it.
pub(crate) fn touched(path: &Path) -> Option<i64> {
    let times = |path: &Path| mark(path).map(|mark| mark.touched());
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

#[cfg(unix)]
pub(crate) fn mark(path: &Path) -> Option<Mark> {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path).ok()?;
    Some(Mark {
        inode: (found.dev(), found.ino()),
        written: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// Where files have no numbers, every change must be read twice.
#[cfg(not(unix))]
pub(crate) fn mark(path: &Path) -> Option<Mark> {
    let found = fs::metadata(path).ok()?;
    let written = found.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let seconds = i64::try_from(written.as_secs()).ok()?;
    let written = (seconds, i64::from(written.subsec_nanos()));
    Some(Mark { inode: (0, 0), written, changed: written })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{sync::Arc, time::SystemTime};

    use super::*;
    use keyward_process::clock::SystemClock;

    fn reload(paths: &[&Path], confirm: Duration) -> Reload {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        Reload::new(paths, confirm, Arc::new(SystemClock))
    }

    fn rename_over(path: &Path, text: &str) {
        let beside = path.with_extension("new");
        fs::write(&beside, text).unwrap();
        // Both happen within one tick of the file system's clock here, and then nobody could tell.
        let file = fs::File::options().write(true).open(&beside).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(1)).unwrap();
        fs::rename(beside, path).unwrap();
    }

    #[test]
    fn a_file_replaced_by_renaming_is_taken_at_once_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "one").unwrap();
        let mut reload = reload(&[&path], Duration::from_secs(3600));
        assert_eq!(reload.look(|| ()), None);
        rename_over(&path, "two");
        assert_eq!(reload.look(|| fs::read_to_string(&path).unwrap()).as_deref(), Some("two"));
        assert_eq!(reload.look(|| ()), None);
        rename_over(&path, "two");
        assert_eq!(reload.look(|| ()), None, "the same again is no change");
    }

    #[test]
    fn a_file_written_in_place_waits_until_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "one").unwrap();
        let mut reload = reload(&[&path], Duration::from_secs(3600));
        fs::write(&path, "tw").unwrap();
        assert_eq!(reload.look(|| ()), None);
        assert!(reload.is_pending());
        fs::write(&path, "two").unwrap();
        assert_eq!(reload.look(|| ()), None, "it was written meanwhile");
        assert_eq!(reload.look(|| ()), Some(()), "it was read twice");
    }

    #[test]
    fn what_changes_while_it_is_loaded_is_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, "one").unwrap();
        let mut reload = reload(&[&path], Duration::from_secs(3600));
        // Held open, so that its number is not given to one of the next.
        let _one = fs::File::open(&path).unwrap();
        rename_over(&path, "two");
        assert_eq!(reload.look(|| rename_over(&path, "three")), None);
        assert_eq!(reload.look(|| fs::read_to_string(&path).unwrap()).as_deref(), Some("three"));
    }

    #[test]
    fn a_file_that_comes_or_goes_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "1").unwrap();
        let mut reload = reload(&[&one, &two], Duration::from_secs(3600));
        fs::write(&two, "2").unwrap();
        assert_eq!(reload.look(|| ()), None);
        assert_eq!(reload.look(|| ()), Some(()));
        fs::remove_file(&one).unwrap();
        assert_eq!(reload.look(|| ()), None);
        assert_eq!(reload.look(|| ()), Some(()));
    }
}
