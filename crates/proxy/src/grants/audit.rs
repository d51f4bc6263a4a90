//! The log of a grant: a JSON object for each request, without bodies and without secrets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// A file of this size is put aside.
const LARGEST: u64 = 16 << 20;

/// How many files are kept aside.
pub(super) const KEPT: u32 = 4;

/// The log of one grant.
#[derive(Debug)]
pub(super) struct AuditLog {
    path: PathBuf,
    open: Mutex<Option<(File, u64)>>,
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::default() }
    }

    /// Opens the file, unless it is open: before anything is allowed that could not be recorded.
    pub(super) fn ready(&self) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            *open = Some(append(&self.path)?);
        }
        Ok(())
    }

    /// Writes a line. If that fails, [`ready`](Self::ready) says why before the next request.
    pub(super) fn write(&self, mut line: String) {
        line.push('\n');
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.write_line(&mut open, &line);
        if let Err(error) = written {
            tracing::error!(%error, "cannot write `{}`", self.path.display());
            *open = None;
        }
    }

    fn write_line(&self, open: &mut Option<(File, u64)>, line: &str) -> io::Result<()> {
        if open.as_ref().is_some_and(|(_, size)| *size >= LARGEST) {
            rotate(&self.path)?;
            *open = None;
        }
        let (file, size) = match open {
            Some(open) => open,
            None => open.insert(append(&self.path)?),
        };
        file.write_all(line.as_bytes())?;
        *size += line.len() as u64;
        Ok(())
    }
}

/// Opens the file at its end.
fn append(path: &Path) -> io::Result<(File, u64)> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // Whatever the umask.
    file.set_permissions(Permissions::from_mode(0o600))?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Puts the file aside; the oldest one is dropped.
fn rotate(path: &Path) -> io::Result<()> {
    for number in (1..KEPT).rev() {
        match fs::rename(older(path, number), older(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(path, older(path, 1))
}

/// The file that was put aside so many files ago.
pub(super) fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_full_log_is_put_aside_and_nothing_is_lost_before_the_oldest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/one.jsonl");
        let log = AuditLog::new(path.clone());
        log.ready().unwrap();
        let line = "x".repeat(1 << 20);
        for _ in 0..=16 * (KEPT + 3) {
            log.write(line.clone());
        }
        let sizes: Vec<_> = (1..=KEPT).map(|n| older(&path, n).metadata().unwrap().len()).collect();
        assert!(sizes.iter().all(|size| *size >= LARGEST), "{sizes:?}");
        assert!(!older(&path, KEPT + 1).exists());
        assert_eq!(path.metadata().unwrap().len(), (1 << 20) + 1);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_log_that_cannot_be_written_is_not_ready() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "").unwrap();
        let log = AuditLog::new(path.join("one.jsonl"));
        assert!(log.ready().is_err());
        log.write("lost".to_owned());
        assert!(log.ready().is_err());
    }
}
