//! Looks for marked secrets where a curious program of the same user would.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

/// The most that is read of one file of a process.
const MOST: u64 = 4 << 20;
/// How much memory is read at once.
const PIECE: u64 = 1 << 20;

pub(crate) struct Search {
    pub(crate) marks: Vec<String>,
}

impl Search {
    /// The files below a directory that contain a mark.
    pub(crate) fn files(&self, root: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![root.to_owned()];
        while let Some(path) = left.pop() {
            // Other tests create and remove files meanwhile.
            let Ok(kind) = fs::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(entries.map(|entry| entry.path()));
            } else if kind.is_file() && fs::read(&path).is_ok_and(|bytes| self.is_in(&bytes)) {
                found.push(path);
            }
        }
        found.sort();
        found
    }

    /// The files of this user in the directories that all users share.
    pub(crate) fn shared_directories(&self) -> Vec<PathBuf> {
        let own = rustix::process::geteuid().as_raw();
        let places = ["/tmp", "/var/tmp", "/dev/shm"];
        let entries = places.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten());
        let entries = entries.flatten().filter(|e| e.metadata().is_ok_and(|m| m.uid() == own));
        entries.flat_map(|entry| self.files(&entry.path())).collect()
    }

    /// What contains a mark of the other processes of this user: files in `/proc/PID`, files they have
    /// open, and their memory.
    pub(crate) fn processes(&self) -> Vec<PathBuf> {
        // The tests themselves know the secrets, or have read the memory of one that does.
        let own = std::env::current_exe().unwrap();
        let is_test = |id: &u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|e| e == own);
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let others = ids.filter(|id| !is_test(id) && is_of_this_user(*id));
        others.flat_map(|id| self.process(id)).collect()
    }

    fn process(&self, id: u32) -> Vec<PathBuf> {
        let directory = PathBuf::from(format!("/proc/{id}"));
        let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let files = list(&directory).map(|entry| entry.path());
        // Not pipes and terminals: reading those would take something away.
        let open = list(&directory.join("fd")).map(|entry| entry.path());
        let files = files.chain(open).filter(|path| fs::metadata(path).is_ok_and(|m| m.is_file()));
        let special = ["mem", "pagemap"].map(|name| directory.join(name));
        let files = files.filter(|path| !special.contains(path));
        let mut found: Vec<_> = files.filter(|path| self.is_in_file(path)).collect();
        if self.is_in_memory(id) {
            found.push(directory.join("mem"));
        }
        found
    }

    fn is_in_file(&self, path: &Path) -> bool {
        let mut bytes = Vec::new();
        // What was read before an error counts, too.
        let _ = File::open(path).map(|file| file.take(MOST).read_to_end(&mut bytes));
        self.is_in(&bytes)
    }

    /// Whether a mark is in the memory of a process, as far as it can be read.
    pub(crate) fn is_in_memory(&self, id: u32) -> bool {
        let Ok(memory) = File::open(format!("/proc/{id}/mem")) else { return false };
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
        let longest = self.marks.iter().map(String::len).max().unwrap_or_default();
        let mut piece = vec![0; usize::try_from(PIECE).unwrap() + longest];
        maps.lines().filter_map(region).any(|(begin, end)| {
            let mut place = begin;
            while place < end {
                let most = usize::try_from(end - place).unwrap().min(piece.len());
                let count = memory.read_at(&mut piece[..most], place).unwrap_or_default();
                if count > 0 && self.is_in(&piece[..count]) {
                    return true;
                }
                place += PIECE;
            }
            false
        })
    }

    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        self.marks.iter().any(|mark| text.contains(mark.as_str()))
    }
}

/// The addresses of a readable region of memory, from its line in `maps`.
fn region(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let (begin, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    rest.starts_with('r').then_some((number(begin)?, number(end)?))
}

/// The owner of `/proc/PID` does not say it: that is root for a process that keeps its memory private.
fn is_of_this_user(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let own = rustix::process::geteuid().as_raw().to_string();
    line.split_whitespace().next() == Some(&own)
}
