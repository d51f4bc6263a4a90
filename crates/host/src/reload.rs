//! Files that may change while they are used: which new content is whole, and can be taken?
//!
//! A file that was replaced by renaming is whole, so it is taken at once. One that was written in
//! place may be half written, so it is taken when nobody has touched it for a while: its times say so,
//! or it was read twice with the same content.
//!
//! What is broken about the new content, and what is in force meanwhile, is for those who read it to say.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_process::{
    FileId,
    clock::SharedClock,
    file::{self, Limits},
};
use sha2::{Digest as _, Sha256};

/// How often files are looked at.
#[derive(Debug, Clone, Copy)]
pub struct ReloadPace {
    /// The least time between two looks.
    pub every: Duration,
    /// How long a file must be left alone before it is taken for whole: the least age of what is read
    /// once, and the least time between the two readings that must be equal.
    pub confirm: Duration,
}

impl Default for ReloadPace {
    /// Every second, and a tenth of one to confirm.
    fn default() -> Self {
        Self { every: Duration::from_secs(1), confirm: Duration::from_millis(100) }
    }
}

/// Files that are looked at again and again. A file that does not exist counts too: it may come.
pub struct Reload {
    list: Box<dyn Fn() -> Vec<PathBuf> + Send>,
    confirm: Duration,
    clock: SharedClock,
    /// What was taken last.
    taken: Snapshot,
    /// What was read last and must be read once more.
    pending: Option<Snapshot>,
    /// Whether what was taken could have changed since without another mark.
    fresh: bool,
}

impl Reload {
    /// Takes what the files say now as known. Files that exist and are no regular files (a pipe of a
    /// shell) can be read once only, and are left out.
    pub fn new(paths: Vec<PathBuf>, confirm: Duration, clock: SharedClock) -> Self {
        let regular = |path: &PathBuf| fs::metadata(path).map_or(true, |found| found.is_file());
        let paths: Vec<PathBuf> = paths.into_iter().filter(regular).collect();
        Self::listed(move || paths.clone(), confirm, clock)
    }

    /// Does what [`Reload::new`] does for files that are listed anew with each look, such as those of a
    /// directory, which is one of them.
    pub fn listed(
        list: impl Fn() -> Vec<PathBuf> + Send + 'static,
        confirm: Duration,
        clock: SharedClock,
    ) -> Self {
        let taken = Snapshot::of(&list);
        Self { list: Box::new(list), confirm, clock, taken, pending: None, fresh: true }
    }

    /// Looks at the files. Returns whether they say something else than what was taken last, and
    /// are whole; they are then known. `load` reads them, in whatever way: what it returns is given
    /// back if nobody touched a file meanwhile, else the next look tries again.
    pub fn look<T>(&mut self, load: impl FnOnce() -> T) -> Option<T> {
        if !self.fresh && self.pending.is_none() && marks(&(self.list)()) == self.taken.marks {
            return None;
        }
        let seen = Snapshot::of(&self.list);
        if !self.offer(&seen) {
            return None;
        }
        let loaded = load();
        let steady = marks(&(self.list)()) == seen.marks;
        steady.then(|| {
            (self.taken, self.pending, self.fresh) = (seen, None, true);
            loaded
        })
    }

    /// Whether something has changed that is not taken for whole yet, so that the next look should
    /// come soon.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether this is something else than what was taken last, and whole.
    fn offer(&mut self, seen: &Snapshot) -> bool {
        let settled = seen.settled(self.clock.wall_millis(), self.confirm);
        if seen.content == self.taken.content {
            self.fresh = !settled;
            (self.taken, self.pending) = (seen.clone(), None);
            return false;
        }
        let twice = self
            .pending
            .as_ref()
            .is_some_and(|p| p.content == seen.content && p.marks == seen.marks);
        if twice || settled || seen.replaces(&self.taken) {
            return true;
        }
        self.pending = Some(seen.clone());
        false
    }
}

/// What a file says.
#[derive(Clone, PartialEq, Eq)]
enum Content {
    /// There is no such file.
    Absent,
    /// The path exists but cannot be read as a file.
    Unreadable,
    Digest([u8; 32]),
}

impl Content {
    fn of(path: &Path) -> Self {
        match file::read(path, &Limits::GIVEN.regular()) {
            Ok(bytes) => Self::Digest(Sha256::digest(&bytes[..]).into()),
            Err(_) if path.exists() => Self::Unreadable,
            Err(_) => Self::Absent,
        }
    }
}

/// What stood in files at one moment.
#[derive(Clone)]
struct Snapshot {
    content: Vec<(PathBuf, Content)>,
    marks: Vec<Option<FileId>>,
    /// When anything was touched last, in milliseconds since 1970, if that can be told.
    touched: Option<i64>,
}

impl Snapshot {
    /// Reads between two looks at the marks; if those differ, somebody is writing, and no later reading
    /// will be equal to this one.
    fn of(list: impl Fn() -> Vec<PathBuf>) -> Self {
        let look = || {
            let paths = list();
            let times =
                paths.iter().try_fold(i64::MIN, |last, path| Some(last.max(touched(path)?)));
            (marks(&paths), times)
        };
        let before = look();
        let content = list().into_iter().map(|path| {
            let content = Content::of(&path);
            (path, content)
        });
        let content = content.collect();
        let after = look();
        let steady = after == before;
        let (mut marks, touched) = after;
        if !steady {
            marks.push(None);
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
        let count = self.content.len();
        if [self.marks.len(), old.marks.len(), old.content.len()] != [count; 3] {
            return false;
        }
        let files = self.content.iter().zip(&old.content);
        files.zip(self.marks.iter().zip(&old.marks)).all(
            |(((path, new), (old_path, old)), marks)| {
                // What comes or goes is no renaming over another file.
                path == old_path
                    && (new == old
                        || matches!((new, old), (Content::Digest(_), Content::Digest(_)))
                            && matches!(marks, (Some(mark), Some(old)) if mark.was_renamed_over(old)))
            },
        )
    }
}

/// A mark for each path of a list. Where files have no numbers, every change must be read twice.
fn marks(paths: &[PathBuf]) -> Vec<Option<FileId>> {
    paths.iter().map(|path| FileId::read(path).ok()).collect()
}

/// The clock of a file system is no finer than this.
const TICK: Duration = Duration::from_millis(20);

/// When a file was touched last; where there is none, when the directory was that had it.
fn touched(path: &Path) -> Option<i64> {
    let times = |path: &Path| FileId::read(path).ok().map(millis);
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

/// When a file's content or name changed last, in milliseconds since 1970.
fn millis(mark: FileId) -> i64 {
    let (seconds, nanos) = mark.touched();
    // Some file systems keep whole seconds, or every other one.
    let later = if nanos == 0 { 2_000 } else { nanos / 1_000_000 };
    seconds.saturating_mul(1_000).saturating_add(later)
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
