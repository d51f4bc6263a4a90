use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// `FILE.lock`, which kubectl and other programs with client-go hold while they change a kubeconfig. Removed when
/// dropped.
#[derive(Debug)]
pub struct LockFile(PathBuf);

impl LockFile {
    /// Creates the lock of a file. `None` if it exists: another program changes the file, or one that did was killed.
    pub fn take(file: &Path) -> io::Result<Option<Self>> {
        let lock = Self::path(file);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&lock) {
            Ok(_) => Ok(Some(Self(lock))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The path of the lock of a file.
    pub fn path(file: &Path) -> PathBuf {
        let mut name = OsString::from(file.as_os_str());
        name.push(".lock");
        name.into()
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_one_has_the_lock_and_it_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let lock = LockFile::take(&file).unwrap();
        assert!(lock.is_some() && folder.path().join("config.lock").exists());
        assert!(LockFile::take(&file).unwrap().is_none());
        drop(lock);
        assert!(LockFile::take(&file).unwrap().is_some());
        assert!(LockFile::take(&folder.path().join("missing/config")).is_err());
    }
}
