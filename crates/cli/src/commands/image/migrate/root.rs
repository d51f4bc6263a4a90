//! The file system of the node: `/`, or a copy of it below a directory.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
    io::ErrorKind,
    path::{Component, Path, PathBuf},
};

use keyward_process::file::{self, Limits};
use keyward_protocol::Node;
use zeroize::Zeroizing;

use crate::{failure::Failure, output};

/// The most symlinks that are followed in one path, as in Linux.
const MOST_LINKS: usize = 40;

/// The root directory of a node. All paths that it takes and returns are the node's own.
#[derive(Debug)]
pub(super) struct Root(PathBuf);

impl Root {
    pub(super) fn new(directory: &Path) -> Result<Self, Failure> {
        if !directory.is_dir() {
            let shown = output::path(directory);
            return Err(Failure::failed(format!("`{shown}` is not a directory")));
        }
        Ok(Self(directory.to_owned()))
    }

    /// Where a path of the node is here. Symlinks lead to where they would on the node, never out of the copy.
    pub(super) fn locate(&self, path: &Path) -> PathBuf {
        let mut rest: VecDeque<OsString> = parts(path).collect();
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(part);
            if let Ok(target) = fs::read_link(self.here(&at)) {
                links += 1;
                if links > MOST_LINKS {
                    // The system would follow the next link out of the copy, so it gets a path that it refuses.
                    return self.here(Path::new("/\0"));
                }
                at.pop();
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let target: Vec<_> = parts(&target).collect();
                target.into_iter().rev().for_each(|part| rest.push_front(part));
            }
        }
        self.here(&at)
    }

    /// The path on the node of a file that is here; unchanged for a file elsewhere.
    pub(super) fn on_node(&self, here: &Path) -> PathBuf {
        here.strip_prefix(&self.0)
            .map_or_else(|_| here.to_owned(), |path| Path::new("/").join(path))
    }

    /// Where to write a file that is to be here: if it is in the copy, not outside of it.
    pub(super) fn place(&self, here: &Path) -> PathBuf {
        match here.strip_prefix(&self.0) {
            Ok(path) => self.locate(path),
            Err(_) => here.to_owned(),
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.locate(path).exists()
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.locate(path).is_dir()
    }

    /// A file's bytes; `None` if it does not exist.
    pub(super) fn read(&self, path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, Failure> {
        file::read(&self.locate(path), &Limits::NAMED.regular()).map(Some).or_else(|error| {
            let (shown, why) = (output::path(path), file::reason(&error));
            let failure = Failure::failed(format!("`{shown}` cannot be read: {why}"));
            match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(None),
                ErrorKind::PermissionDenied => Err(failure.hint("run this as root")),
                _ => Err(failure),
            }
        })
    }

    /// A file's text; `None` if it does not exist.
    pub(super) fn text(&self, path: &Path) -> Result<Option<Zeroizing<String>>, Failure> {
        let bytes = self.read(path)?;
        Ok(bytes.map(|bytes| Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned())))
    }

    /// A file of JSON or YAML; `None` if it does not exist.
    pub(super) fn node(&self, path: &Path) -> Result<Option<Node>, Failure> {
        let Some(bytes) = self.read(path)? else { return Ok(None) };
        Node::from_json_or_yaml(&bytes).map(Some).map_err(|error| {
            let shown = output::path(path);
            Failure::failed(format!("`{shown}`, line {}: {}", error.line, error.what))
        })
    }

    /// The files of a directory whose names end like this, in the order of their names.
    pub(super) fn files(&self, directory: &Path, end: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.locate(directory)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
        names.sort();
        names.iter().map(|name| directory.join(name)).collect()
    }

    fn here(&self, path: &Path) -> PathBuf {
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// The parts of a path that lead somewhere.
fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn symlinks_lead_where_they_would_on_the_node() {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir_all(copy.path().join("etc/real")).unwrap();
        fs::write(copy.path().join("etc/real/file"), "here").unwrap();
        symlink("/etc/real", copy.path().join("etc/link")).unwrap();
        symlink("../../../../etc/real/file", copy.path().join("out")).unwrap();
        symlink("loop", copy.path().join("loop")).unwrap();
        let root = Root::new(copy.path()).unwrap();
        for path in ["/etc/link/file", "/out", "/etc/link/../real/file"] {
            let text = root.text(Path::new(path)).unwrap();
            assert_eq!(text.as_deref().map(String::as_str), Some("here"), "{path}");
        }
        assert!(root.read(Path::new("/nothing")).unwrap().is_none());
        assert!(root.read(Path::new("/loop")).is_err());
        assert_eq!(root.on_node(&copy.path().join("etc/x")), Path::new("/etc/x"));
    }
}
