//! Finds a program by its name, as Go's `exec.LookPath` does, and remembers where it looked.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Component, Path, PathBuf},
};

use keyward_process::surroundings::Surroundings;

/// Why a command leads to no program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// No directory has it.
    Nowhere {
        /// The directories that were searched, in order; for a command with a separator, its one path.
        looked: Vec<PathBuf>,
        /// A file of that name that may not be executed.
        unusable: Option<PathBuf>,
    },
    /// Only a relative element of `PATH` has it, which is refused: a program must not depend on the
    /// working directory.
    Relative(PathBuf),
    /// A path that was named outright and is there, but is a directory.
    Folder(PathBuf),
    /// A path that was named outright and is there, but may not be executed.
    NotExecutable(PathBuf),
    /// A path that was named outright and cannot be looked at, such as a link to itself.
    Unreachable(PathBuf),
}

/// Looks up `command`: through `PATH`, then `extra`, for a bare name; a command with a separator is
/// the path it says and never searched for (D5).
///
/// What comes back is the text the reference would compare: absolute for a search, and for a path
/// as it was said, cleaned.
pub(super) fn find(
    command: &str,
    surroundings: &Surroundings,
    extra: &[PathBuf],
) -> Result<PathBuf, Missing> {
    if !is_bare(command) {
        return named(&explicit(command), surroundings);
    }
    if matches!(command, "" | "." | "..") {
        return Err(Missing::Nowhere { looked: Vec::new(), unusable: None });
    }
    search(command, surroundings, extra)
}

/// Whether a command is a name to be searched for, rather than a path.
pub(super) fn is_bare(command: &str) -> bool {
    !command.chars().any(std::path::is_separator)
}

/// A command that is a path, cleaned. Where cleaning would leave a bare name (`./x`), the `./` stays,
/// so that nothing mistakes it for one.
pub(super) fn explicit(command: &str) -> PathBuf {
    let clean = clean(Path::new(command));
    if clean.components().count() == 1 && clean.is_relative() {
        Path::new(".").join(clean)
    } else {
        clean
    }
}

/// The shortest path that means the same by its text alone: Go's `filepath.Clean`.
pub(crate) fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match out.components().next_back() {
                Some(Component::Normal(_)) => {
                    out.pop();
                }
                Some(Component::RootDir | Component::Prefix(_)) => {}
                _ => out.push(".."),
            },
            other => out.push(other),
        }
    }
    if out.as_os_str().is_empty() {
        out.push(".");
    }
    out
}

pub(super) fn named(path: &Path, surroundings: &Surroundings) -> Result<PathBuf, Missing> {
    check(surroundings.absolute(path)).map(|()| path.to_owned())
}

fn search(name: &str, surroundings: &Surroundings, extra: &[PathBuf]) -> Result<PathBuf, Missing> {
    let path = surroundings.var("PATH").unwrap_or_default();
    let folders = split(&path);
    let mut looked: Vec<PathBuf> = Vec::new();
    let mut unusable = None;
    for folder in folders.iter().chain(extra) {
        let candidate = clean(&folder.join(name));
        if !looked.contains(folder) {
            looked.push(folder.clone());
        }
        match check(surroundings.absolute(&candidate)) {
            Ok(()) if candidate.is_absolute() => return Ok(candidate),
            Ok(()) => return Err(Missing::Relative(candidate)),
            Err(Missing::NotExecutable(_)) => {
                unusable.get_or_insert(candidate);
            }
            Err(_) => {}
        }
    }
    Err(Missing::Nowhere { looked, unusable })
}

/// The directories of a `PATH`; an empty element means the working directory, an empty `PATH` nothing.
fn split(path: &OsStr) -> Vec<PathBuf> {
    if path.is_empty() {
        return Vec::new();
    }
    std::env::split_paths(path)
        .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
        .collect()
}

/// Whether a file is a program, by its absolute path.
fn check(path: PathBuf) -> Result<(), Missing> {
    match fs::metadata(&path) {
        Ok(found) if found.is_dir() => Err(Missing::Folder(path)),
        Ok(_) if executable(&path) => Ok(()),
        Ok(_) => Err(Missing::NotExecutable(path)),
        Err(error) => Err(match error.kind() {
            // A directory on the way may not be entered: it is there, and no use to us.
            io::ErrorKind::PermissionDenied => Missing::NotExecutable(path),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                Missing::Nowhere { looked: vec![path], unusable: None }
            }
            _ => Missing::Unreachable(path),
        }),
    }
}

#[cfg(unix)]
fn executable(path: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(not(unix))]
fn executable(_path: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning_is_the_shortest_equal_text() {
        for (given, expected) in [
            ("", "."),
            (".", "."),
            ("./x", "x"),
            ("a//b/", "a/b"),
            ("a/../b", "b"),
            ("../a/./b", "../a/b"),
            ("/../a", "/a"),
            ("a/..", "."),
            ("../../x", "../../x"),
        ] {
            assert_eq!(clean(Path::new(given)).as_os_str(), OsStr::new(expected), "{given}");
        }
    }

    #[test]
    fn a_path_stays_a_path() {
        assert_eq!(explicit("./x").as_os_str(), "./x");
        assert_eq!(explicit("a/../x").as_os_str(), "./x");
        assert_eq!(explicit("d/x").as_os_str(), "d/x");
        assert_eq!(explicit("/d/./x").as_os_str(), "/d/x");
    }
}
