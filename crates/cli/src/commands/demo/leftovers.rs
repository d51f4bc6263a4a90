//! Removes the directories of demos that were killed: they contain a key and a PIN.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// The prefix of every demo's directory.
pub(super) const PREFIX: &str = "keyward-demo-";

/// The file that a running demo keeps locked.
const LOCK: &str = "lock";

/// Marks a directory as in use by a running demo, until the file is closed.
pub(super) fn mark(directory: &Path) -> io::Result<File> {
    // Locked before it gets its name, so that nobody sees it unlocked.
    let draft = directory.join("lock.new");
    let file = File::create_new(&draft)?;
    file.lock()?;
    fs::rename(draft, directory.join(LOCK))?;
    Ok(file)
}

/// Removes the directories of this user's demos that are no longer running.
pub(super) fn sweep(base: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if !ours {
            continue;
        }
        let left = entry.path();
        if File::open(left.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(&left);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_what_a_dead_demo_left_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = base.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let (dead, alive) = (make("keyward-demo-a"), make("keyward-demo-b"));
        let (unmarked, other) = (make("keyward-demo-c"), make("other"));
        drop(mark(&dead).unwrap());
        drop(mark(&other).unwrap());
        let _held = mark(&alive).unwrap();
        sweep(base.path());
        assert!(!dead.exists());
        assert!(alive.exists() && unmarked.exists() && other.exists());
    }
}
