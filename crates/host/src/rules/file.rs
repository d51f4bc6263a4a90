//! Looks at a program's file, and at every folder and link that leads to it: who could replace it?

use std::{io, path::Path};

/// What was found on the way to a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Reasons to refuse it.
    pub(super) faults: Vec<String>,
    /// Things to know that do not stop it.
    pub(super) warnings: Vec<String>,
}

/// Walks from the root to the program, through links, and notes what others may change.
#[cfg(unix)]
pub(super) fn inspect(program: &Path) -> io::Result<Findings> {
    unix::inspect(program, rustix::process::geteuid().as_raw())
}

/// Windows has access lists instead of modes; they are not looked at.
#[cfg(not(unix))]
pub(super) fn inspect(_program: &Path) -> io::Result<Findings> {
    Ok(Findings::default())
}

#[cfg(unix)]
mod unix {
    use std::{
        collections::HashSet,
        ffi::OsString,
        fs, io,
        os::unix::fs::MetadataExt,
        path::{Component, Path, PathBuf},
    };

    use super::Findings;

    /// As many links as Linux follows in one path.
    const LINKS: usize = 40;
    const STICKY: u32 = 0o1000;
    const WORLD_WRITES: u32 = 0o002;
    const GROUP_WRITES: u32 = 0o020;

    pub(super) fn inspect(program: &Path, us: u32) -> io::Result<Findings> {
        let mut walk = Walk { us, seen: HashSet::new(), findings: Findings::default() };
        walk.folder(Path::new("/"))?;
        let mut here = PathBuf::from("/");
        let mut ahead = parts(program);
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&part);
            let found = fs::symlink_metadata(&next)?;
            if found.is_symlink() {
                links += 1;
                if links > LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                walk.owner("link", &next, &found);
                let to = fs::read_link(&next)?;
                if to.is_absolute() {
                    here = PathBuf::from("/");
                }
                ahead.extend(parts(&to));
            } else if found.is_dir() {
                walk.folder(&next)?;
                here = next;
            } else {
                walk.program(&next, &found);
                here = next;
            }
        }
        Ok(walk.findings)
    }

    /// The parts of a path, last one first.
    fn parts(path: &Path) -> Vec<OsString> {
        let mut parts: Vec<OsString> = path
            .components()
            .filter_map(|component| match component {
                Component::Normal(part) => Some(part.to_owned()),
                Component::ParentDir => Some("..".into()),
                _ => None,
            })
            .collect();
        parts.reverse();
        parts
    }

    struct Walk {
        us: u32,
        seen: HashSet<PathBuf>,
        findings: Findings,
    }

    impl Walk {
        fn folder(&mut self, path: &Path) -> io::Result<()> {
            if !self.seen.insert(path.to_owned()) {
                return Ok(());
            }
            let found = fs::metadata(path)?;
            self.owner("folder", path, &found);
            // In a sticky folder only the owner of a file can rename or delete it.
            if found.mode() & STICKY == 0 {
                self.mode("folder", path, found.mode());
            }
            Ok(())
        }

        fn program(&mut self, path: &Path, found: &fs::Metadata) {
            self.owner("file", path, found);
            self.mode("file", path, found.mode());
        }

        fn owner(&mut self, what: &str, path: &Path, found: &fs::Metadata) {
            let owner = found.uid();
            if owner != 0 && owner != self.us {
                self.findings.faults.push(format!(
                    "{what} `{}` belongs to user {owner}, who is neither root nor you",
                    path.display()
                ));
            }
        }

        fn mode(&mut self, what: &str, path: &Path, mode: u32) {
            if mode & WORLD_WRITES != 0 {
                self.findings.faults.push(format!(
                    "{what} `{}` can be written by everybody (mode {:04o})",
                    path.display(),
                    mode & 0o7777
                ));
            } else if mode & GROUP_WRITES != 0 {
                self.findings.warnings.push(format!(
                    "{what} `{}` can be written by its group (mode {:04o})",
                    path.display(),
                    mode & 0o7777
                ));
            }
        }
    }
}
