use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_process::file::{self, Limits};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::problem::{Class, Faults, Problem, Stage, settle};
use crate::cache::hex;

/// The bytes of a configuration, not parsed yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Files(Vec<(Arc<Path>, Zeroizing<Vec<u8>>)>);

impl Files {
    /// Reads a file, or the `.json`, `.yaml` and `.yml` files of a directory in the order of their
    /// names, including hidden files but not subdirectories.
    pub fn read(path: &Path) -> Result<Self, Faults> {
        Self::read_at(path, Path::to_owned)
    }

    /// Does what [`read`](Self::read) does, in a copy of another file system: `place` says where a path of that
    /// system is here.
    pub fn read_at(path: &Path, place: impl Fn(&Path) -> PathBuf) -> Result<Self, Faults> {
        let problem = |at: &Path, message| Problem::new(Class::Unreadable, at, 0, "", message);
        let fault = |at: &Path, message: String| Faults {
            stage: Stage::Read,
            problems: vec![problem(at, message)],
        };
        let found = fs::metadata(place(path))
            .map_err(|error| fault(path, unreadable("the configuration", &error)))?;
        let paths: Vec<PathBuf> = if found.is_dir() {
            let found = list(&place(path))
                .map_err(|error| fault(path, unreadable("the directory", &error)))?;
            let names = found.iter().filter_map(|found| found.file_name());
            names.map(|name| path.join(name)).collect()
        } else {
            vec![path.to_owned()]
        };
        if paths.is_empty() {
            let message = "there is no `.json`, `.yaml` or `.yml` file in this directory";
            return Err(fault(path, message.to_owned()));
        }
        // A pipe in a directory would block; one given by name may come from a shell.
        let limits = if found.is_dir() { Limits::GIVEN.regular() } else { Limits::GIVEN };
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for path in paths {
            match file::read(&place(&path), &limits) {
                Ok(bytes) => files.push((path.into(), bytes)),
                Err(error) => problems.push(problem(&path, unreadable("the file", &error))),
            }
        }
        settle(Stage::Read, problems)?;
        Ok(Self(files))
    }

    /// One file whose bytes are already here; `path` is for messages.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Self {
        Self(vec![(path.into(), Zeroizing::new(bytes))])
    }

    /// The files and their bytes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Path>, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path, &bytes[..]))
    }

    /// `sha256:` and the digest over each file's length, in eight bytes, and its bytes (LC-17).
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        for (_, bytes) in &self.0 {
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(&bytes[..]);
        }
        format!("sha256:{}", hex(&digest.finalize()))
    }
}

fn unreadable(what: &str, error: &io::Error) -> String {
    format!("{what} cannot be read: {}", file::reason(error))
}

/// The relevant files of a directory, in order.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let suffix = name.as_encoded_bytes().rsplit(|b| *b == b'.').next();
        let has_dot = name.as_encoded_bytes().contains(&b'.');
        // For the reference, too, a link to a directory is not a directory; reading it fails then.
        if has_dot
            && matches!(suffix, Some(b"json" | b"yaml" | b"yml"))
            && !entry.file_type()?.is_dir()
        {
            paths.push(entry.path());
        }
    }
    paths.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    Ok(paths)
}
