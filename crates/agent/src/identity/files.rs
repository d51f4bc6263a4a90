//! Digests of files, cached so that files are not read each time.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use keyward_process::{
    FileId,
    clock::{Clock, SystemClock},
    file::{self, Limits},
};
use sha2::{Digest, Sha256};

/// Caches digests of files and the first lines of programs. A file whose id has not changed
/// is not read again, unless it changed so recently that a second change might not show.
#[derive(Default)]
pub struct Files {
    known: HashMap<PathBuf, (FileId, Seen)>,
}

#[derive(Clone, Copy)]
struct Seen {
    digest: [u8; 32],
    /// The interpreter, if the file is a script.
    script: Script,
    /// Whether the file names programs for a cloud's tool to run.
    runs: bool,
}

/// The interpreter named in the first line of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// No interpreter: a binary.
    None,
    Python,
    Other,
}

/// The state of a file that selects an identity.
pub(super) enum State {
    Missing,
    Unreadable,
    Content { digest: [u8; 32], runs: bool },
}

/// Files that select an identity are small. For larger ones, size, times and inode count too.
const MOST: u64 = 1 << 20;
/// How many files are cached: enough for a person with many accounts.
const KEPT: usize = 1024;

impl Files {
    /// The current state of a file.
    pub(super) fn state(&mut self, path: &Path) -> State {
        let Ok(file_id) = FileId::read(path) else {
            let missing = !path.symlink_metadata().is_ok_and(|found| found.is_file());
            return if missing { State::Missing } else { State::Unreadable };
        };
        match self.seen(path, file_id, MOST) {
            Some(seen) => State::Content { digest: seen.digest, runs: seen.runs },
            None => State::Unreadable,
        }
    }

    /// The interpreter of a program. An unreadable file counts as a binary.
    pub(super) fn script(&mut self, path: &Path, file_id: FileId) -> Script {
        self.seen(path, file_id, 256).map_or(Script::None, |seen| seen.script)
    }

    fn seen(&mut self, path: &Path, file_id: FileId, most: u64) -> Option<Seen> {
        if let Some((known, seen)) = self.known.get(path)
            && *known == file_id
        {
            return Some(*seen);
        }
        let seen = read(path, file_id, most)?;
        if self.known.len() >= KEPT {
            self.known.clear();
        }
        // Only if it is still that file, and a later change would show.
        if file_id.is_settled(SystemClock.now().as_second())
            && FileId::read(path).is_ok_and(|after| after == file_id)
        {
            self.known.insert(path.to_owned(), (file_id, seen));
        } else {
            self.known.remove(path);
        }
        Some(seen)
    }
}

fn read(path: &Path, file_id: FileId, most: u64) -> Option<Seen> {
    use std::io::Read as _;

    let file = file::open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() {
        return None;
    }
    let mut digest = Sha256::new();
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    if found.len() <= most {
        *bytes = std::mem::take(&mut *file::read_open(&file, &Limits::NAMED.at_most(most)).ok()?);
    } else {
        (&file).take(most).read_to_end(&mut bytes).ok()?;
        digest.update(file_id.to_bytes());
    }
    digest.update(&*bytes);
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let script = match line.strip_prefix(b"#!") {
        None => Script::None,
        Some(line) if contains(line, b"python") => Script::Python,
        Some(_) => Script::Other,
    };
    let runs = contains(&bytes, b"credential_process") || contains(&bytes, b"\"executable\"");
    Some(Seen { digest: digest.finalize().into(), script, runs })
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
