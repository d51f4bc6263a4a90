//! The files of a package, before any format.

use std::{collections::BTreeMap, fs, path::Path};

/// Files and links by their path, without a leading slash. Sorted, so that every archive of a tree has the
/// same order.
#[derive(Debug, Clone, Default)]
pub struct Tree(BTreeMap<String, Entry>);

/// One file of a package.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A file, with its bytes and permissions.
    File(Vec<u8>, u32),
    /// Where it leads.
    Link(String),
    /// Permissions and owner. Only for directories that would otherwise not exist, or belong to root with 0755.
    Directory(u32, u32),
}

impl Tree {
    /// Adds a file that is read, not run.
    pub fn file(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry::File(bytes.into(), 0o644));
    }

    /// Adds a copy of a program.
    pub fn program(&mut self, path: impl Into<String>, from: &Path) -> Result<(), String> {
        let bytes = fs::read(from).map_err(|e| format!("cannot read `{}`: {e}", from.display()))?;
        self.0.insert(path.into(), Entry::File(bytes, 0o755));
        Ok(())
    }

    /// Adds a link.
    pub fn link(&mut self, path: impl Into<String>, to: impl Into<String>) {
        self.0.insert(path.into(), Entry::Link(to.into()));
    }

    /// Adds a directory with these permissions and this owner.
    pub fn directory(&mut self, path: impl Into<String>, mode: u32, owner: u32) {
        self.0.insert(path.into(), Entry::Directory(mode, owner));
    }

    /// All of it in the directory `prefix`.
    pub fn under(&self, prefix: &str) -> Self {
        let moved = self.0.iter().map(|(path, entry)| (format!("{prefix}/{path}"), entry.clone()));
        Self(moved.collect())
    }

    /// Moves everything below the directory `from` to the directory `to`.
    pub fn move_directory(&mut self, from: &str, to: &str) {
        let all = std::mem::take(&mut self.0);
        self.0 = all
            .into_iter()
            .map(|(path, entry)| match path.strip_prefix(from) {
                Some(rest) if rest.starts_with('/') => (format!("{to}{rest}"), entry),
                _ => (path, entry),
            })
            .collect();
    }

    /// Adds what another tree has.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The paths and what is there, sorted.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// What the files need on a disk, in bytes.
    pub fn size(&self) -> u64 {
        let sizes = self.0.values().map(|entry| match entry {
            Entry::File(bytes, _) => bytes.len() as u64,
            Entry::Link(_) | Entry::Directory(..) => 0,
        });
        sizes.sum()
    }
}
