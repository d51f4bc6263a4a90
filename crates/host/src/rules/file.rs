//! Looks at a program's file, and at every folder and link that leads to it: who could replace it?

#[cfg(unix)]
use std::sync::OnceLock;
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
    /// A namespace's map is written once.
    static STAND_IN: OnceLock<Option<u32>> = OnceLock::new();
    let stand_in = *STAND_IN.get_or_init(|| {
        unix::stand_in(&std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default())
    });
    unix::inspect(program, unix::Us { uid: rustix::process::geteuid().as_raw(), stand_in })
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

    /// The owner that stands for all whom a user namespace does not know.
    const OVERFLOW: u32 = 65534;

    /// Whose programs are good.
    #[derive(Clone, Copy)]
    pub(super) struct Us {
        pub(super) uid: u32,
        /// The owner that root is shown as, where that is not 0.
        pub(super) stand_in: Option<u32>,
    }

    /// In a sandbox whose user namespace has no root, root's files are shown as nobody's, and so are
    /// those of everybody else. Refusing them all would leave nothing to run.
    pub(super) fn stand_in(uid_map: &str) -> Option<u32> {
        let mut starts = uid_map.lines().filter_map(|line| line.split_ascii_whitespace().next());
        let known = uid_map.is_empty() || starts.any(|start| start == "0");
        (!known).then_some(OVERFLOW)
    }

    pub(super) fn inspect(program: &Path, us: Us) -> io::Result<Findings> {
        let mut walk = Walk { us, seen: HashSet::new(), findings: Findings::default() };
        walk.folder(Path::new("/"), &fs::metadata("/")?);
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
                walk.folder(&next, &found);
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
        us: Us,
        seen: HashSet<PathBuf>,
        findings: Findings,
    }

    impl Walk {
        fn folder(&mut self, path: &Path, found: &fs::Metadata) {
            if !self.seen.insert(path.to_owned()) {
                return;
            }
            self.owner("folder", path, found);
            // In a sticky folder only the owner of a file can rename or delete it.
            if found.mode() & STICKY == 0 {
                self.mode("folder", path, found.mode());
            }
        }

        fn program(&mut self, path: &Path, found: &fs::Metadata) {
            self.owner("file", path, found);
            self.mode("file", path, found.mode());
        }

        fn owner(&mut self, what: &str, path: &Path, found: &fs::Metadata) {
            let owner = found.uid();
            if self.us.stand_in == Some(owner) {
                self.findings.warnings.push(format!(
                    "{what} `{}` belongs to root or to somebody else: this sandbox cannot tell",
                    path.display()
                ));
            } else if owner != 0 && owner != self.us.uid {
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

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_namespace_without_root_is_recognised() {
            assert_eq!(stand_in("         0          0 4294967295\n"), None);
            assert_eq!(stand_in("0 100000 1000\n1000 1000 1\n"), None);
            assert_eq!(stand_in("1000 1000 1\n"), Some(OVERFLOW));
            assert_eq!(stand_in(""), None);
        }

        #[test]
        fn whoever_owns_the_way_to_a_program_must_be_root_or_us() {
            let folder = tempfile::tempdir().expect("a folder");
            let program = folder.path().join("plug");
            fs::write(&program, "").expect("written");
            let owner = fs::metadata(&program).expect("there").uid();
            let faults = |uid, stand_in| {
                inspect(&program, Us { uid, stand_in }).expect("looked at").faults.len()
            };
            assert_eq!(faults(owner, None), 0);
            if owner != 0 {
                assert_eq!(faults(owner + 1, None), 2, "the folder and the file");
                assert_eq!(faults(owner + 1, Some(owner)), 0);
            }
        }
    }
}
