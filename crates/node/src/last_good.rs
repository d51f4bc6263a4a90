//! The last valid configuration, on disk: every pull is a new process.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

use keyward_image::Files;

/// The link to the directory with the copy.
const LINK: &str = "last-good";

/// Where the link leads after the configuration was removed.
const REMOVED: &str = "removed";

/// A directory with a copy of the last valid configuration. Only its owner can read it: a configuration may hold
/// secrets in `env`.
pub(crate) struct LastGood<'a> {
    pub(crate) dir: &'a Path,
}

impl LastGood<'_> {
    /// The directory with the copied configuration, if there is one.
    pub(crate) fn copy(&self) -> PathBuf {
        self.dir.join(LINK)
    }

    /// Whether an earlier pull found that the configuration was removed, which turned all providers off.
    pub(crate) fn is_removed(&self) -> bool {
        self.leads_to(REMOVED)
    }

    /// Copies the configuration at `path`, which has this hash, unless it has been copied before. Without a hash, the
    /// configuration was removed: this is recorded, and no copy is left. A concurrent run that does the same does no
    /// harm.
    pub(crate) fn save(&self, path: &Path, hash: &str) -> io::Result<()> {
        let name = if hash.is_empty() { REMOVED.to_owned() } else { hash.replace(':', "-") };
        if self.leads_to(&name) {
            return Ok(());
        }
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(self.dir)?;
        if !hash.is_empty() && !self.dir.join(&name).is_dir() {
            // Changed since it was found to be valid: the next run copies it.
            let Some(files) = Files::read(path).ok().filter(|files| files.hash() == hash) else {
                return Ok(());
            };
            self.write_copy(&files, &name)?;
        }
        let new = self.temporary(LINK);
        symlink(&name, &new)?;
        fs::rename(&new, self.copy())?;
        self.remove_others(&name);
        Ok(())
    }

    fn leads_to(&self, name: &str) -> bool {
        fs::read_link(self.copy()).is_ok_and(|target| target == Path::new(name))
    }

    fn write_copy(&self, files: &Files, name: &str) -> io::Result<()> {
        let new = self.temporary(name);
        DirBuilder::new().mode(0o700).create(&new)?;
        for (number, (path, bytes)) in files.iter().enumerate() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Numbered, so that the order stays; a suffix, so that the file counts in a directory.
            let file = new.join(format!("{number:04}-{name}.yaml"));
            let mut copy = OpenOptions::new();
            let mut copy = copy.write(true).create_new(true).mode(0o600).open(file)?;
            copy.write_all(bytes)?;
            // The link must never lead to a file that a power failure left empty.
            copy.sync_all()?;
        }
        let copy = self.dir.join(name);
        match fs::rename(&new, &copy) {
            Err(_) if copy.is_dir() => fs::remove_dir_all(&new),
            result => result,
        }
    }

    /// A name that no other process uses.
    fn temporary(&self, name: &str) -> PathBuf {
        self.dir.join(format!(".{name}.{}", std::process::id()))
    }

    /// Removes older copies. One that stays behind does no harm.
    fn remove_others(&self, current: &str) {
        for entry in fs::read_dir(self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_copy = name.as_encoded_bytes().starts_with(b"sha256-");
            if is_copy && name.as_encoded_bytes() != current.as_bytes() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
