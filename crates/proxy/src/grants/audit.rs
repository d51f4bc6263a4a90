//! The log of a grant: a JSON object for each request, without bodies and without secrets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Mutex,
};

use keyward_process::lock;

/// A file of this size is put aside.
const LARGEST: u64 = 16 << 20;

/// How many files are kept aside.
pub(super) const KEPT: u32 = 4;

/// Lines of denied requests are kept for later up to this size. Those of allowed ones always are: no more
/// are allowed.
const MOST_UNWRITTEN: usize = 1 << 20;

/// The log of one grant.
#[derive(Debug)]
pub(super) struct AuditLog {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: Option<(File, u64)>,
    /// Whole lines that could not be written yet.
    unwritten: Vec<u8>,
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, state: Mutex::default() }
    }

    /// Opens the file, unless it is open, and writes what could not be written before: nothing is allowed
    /// that could not be recorded.
    pub(super) fn ready(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.open.is_some() && state.unwritten.is_empty() {
            return Ok(());
        }
        state.flush(&self.path)
    }

    /// Writes a line. If that fails, [`ready`](Self::ready) tries again before the next request is allowed.
    pub(super) fn write(&self, line: &str, allowed: bool) {
        let mut state = lock(&self.state);
        if allowed || state.unwritten.len() < MOST_UNWRITTEN {
            state.unwritten.extend_from_slice(line.as_bytes());
            state.unwritten.push(b'\n');
        }
        if let Err(error) = state.flush(&self.path) {
            tracing::error!(%error, "cannot write `{}`", self.path.display());
        }
    }
}

impl State {
    fn flush(&mut self, path: &Path) -> io::Result<()> {
        let mut written = 0;
        let done = self.write(path, &mut written);
        // The rest of a line would be taken for a line of its own.
        let whole = self.unwritten[..written].iter().rposition(|byte| *byte == b'\n');
        self.unwritten.drain(..whole.map_or(0, |end| end + 1));
        if done.is_err() {
            self.open = None;
        }
        done
    }

    fn write(&mut self, path: &Path, written: &mut usize) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|(_, size)| *size >= LARGEST) {
            rotate(path)?;
            self.open = None;
        }
        let (file, size) = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(append(path)?),
        };
        while *written < self.unwritten.len() {
            match file.write(&self.unwritten[*written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => {
                    *written += more;
                    *size += more as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Opens the file at its end, and ends a line of which only a part was written.
fn append(path: &Path) -> io::Result<(File, u64)> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    // Whatever the umask.
    file.set_permissions(Permissions::from_mode(0o600))?;
    let mut size = file.metadata()?.len();
    let mut last = [b'\n'];
    if size > 0 {
        file.read_exact_at(&mut last, size - 1)?;
    }
    if last != *b"\n" {
        file.write_all(b"\n")?;
        size += 1;
    }
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
            log.write(&line, true);
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
        log.write("kept", true);
        assert!(log.ready().is_err());
        fs::remove_file(&path).unwrap();
        log.ready().unwrap();
        assert_eq!(fs::read_to_string(path.join("one.jsonl")).unwrap(), "kept\n");
    }

    #[test]
    fn what_a_full_disk_has_not_taken_is_written_before_anything_is_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("one.jsonl");
        let log = AuditLog::new(path.clone());
        let full = || Some((File::options().write(true).open("/dev/full").unwrap(), 0));
        log.state.lock().unwrap().open = full();
        log.write("first", true);
        log.state.lock().unwrap().open = full();
        assert_eq!(log.ready().unwrap_err().kind(), io::ErrorKind::StorageFull);
        log.state.lock().unwrap().open = full();
        log.write("second", false);
        // Part of a line, as a disk that becomes full leaves it.
        fs::write(&path, "{\"time").unwrap();
        log.ready().unwrap();
        log.write("third", true);
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"time\nfirst\nsecond\nthird\n");
        assert!(log.state.lock().unwrap().unwritten.is_empty());
    }

    #[test]
    fn denied_requests_do_not_fill_the_memory_while_the_disk_is_full() {
        let directory = tempfile::tempdir().unwrap();
        // A directory cannot be opened for writing.
        let log = AuditLog::new(directory.path().to_owned());
        let line = "x".repeat(1 << 16);
        for _ in 0..100 {
            log.write(&line, false);
        }
        log.write("allowed", true);
        let kept = log.state.lock().unwrap().unwritten.clone();
        assert!(kept.len() < MOST_UNWRITTEN + 2 * line.len());
        assert!(kept.ends_with(b"\nallowed\n"));
    }
}
