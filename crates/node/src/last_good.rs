//! The last valid configuration, on disk: every pull is a new process.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
};

use keyward_image::{Config, Files, Reading};

/// The link to the directory with the copy.
const LINK: &str = "last-good";

/// A directory with a copy of the last valid configuration. Only its owner can read it: a configuration may hold
/// secrets in `env`.
pub(crate) struct LastGood<'a> {
    dir: &'a Path,
}

impl<'a> LastGood<'a> {
    pub(crate) fn in_dir(dir: &'a Path) -> Self {
        Self { dir }
    }

    /// The copied configuration, if there is one.
    pub(crate) fn config(&self, reading: Reading) -> Option<Config> {
        let files = Files::read(&self.dir.join(LINK)).ok()?;
        Config::from_files_by(&files, reading).ok()
    }

    /// Copies the configuration at `path`, which has this hash, unless it has been copied before; without a hash there
    /// is no configuration any more, and no copy. A concurrent run that does the same does no harm.
    pub(crate) fn save(&self, path: &Path, hash: &str) -> io::Result<()> {
        let link = self.dir.join(LINK);
        if hash.is_empty() {
            return match fs::remove_file(link) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let name = hash.replace(':', "-");
        if fs::read_link(&link).is_ok_and(|target| target == Path::new(&name)) {
            return Ok(());
        }
        // Changed since it was found to be valid: the next run copies it.
        let Some(files) = Files::read(path).ok().filter(|files| files.hash() == hash) else {
            return Ok(());
        };
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(self.dir)?;
        let copy = self.dir.join(&name);
        if !copy.is_dir() {
            let new = self.temporary(&name);
            private.create(&new)?;
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
            match fs::rename(&new, &copy) {
                Err(_) if copy.is_dir() => fs::remove_dir_all(&new)?,
                result => result?,
            }
        }
        let new = self.temporary(LINK);
        symlink(&name, &new)?;
        fs::rename(&new, &link)?;
        self.remove_others(&name);
        Ok(())
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
