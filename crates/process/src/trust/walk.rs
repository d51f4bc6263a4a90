use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

use super::{Checked, Finding, Part, Problem, Severity, script};
use crate::FileId;

/// As many links as Linux follows in one path.
const LINKS: usize = 40;
/// One more than Linux follows, which refuses to run the rest.
const SCRIPTS: usize = 6;
const STICKY: u32 = 0o1000;
const WORLD_WRITES: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// The owner that stands for all whom a user namespace does not know.
pub(super) const OVERFLOW: u32 = 65534;

/// The owners whose files are trusted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Us {
    pub(super) uid: u32,
    /// The owner that root is shown as, where that is not 0.
    pub(super) stand_in: Option<u32>,
}

impl Us {
    pub(super) fn now() -> Self {
        /// A namespace's map is written once.
        static STAND_IN: OnceLock<Option<u32>> = OnceLock::new();
        let stand_in = *STAND_IN.get_or_init(|| {
            stand_in(&fs::read_to_string("/proc/self/uid_map").unwrap_or_default())
        });
        Self { uid: rustix::process::geteuid().as_raw(), stand_in }
    }

    pub(super) fn includes(self, uid: u32) -> bool {
        uid == 0 || uid == self.uid
    }
}

/// In a sandbox whose user namespace has no root, root's files are shown as nobody's, and so are
/// those of everybody else. Refusing them all would leave nothing to run.
pub(super) fn stand_in(uid_map: &str) -> Option<u32> {
    let mut starts = uid_map.lines().filter_map(|line| line.split_ascii_whitespace().next());
    let known = uid_map.is_empty() || starts.any(|start| start == "0");
    (!known).then_some(OVERFLOW)
}

pub(super) fn check(path: &Path, search_path: Option<&OsStr>, us: Us) -> io::Result<Checked> {
    let mut walk =
        Walk { us, device: None, seen: HashSet::new(), findings: Vec::new(), script: None };
    let (resolved, found) = walk.follow(path)?;
    if let Some(search_path) = search_path {
        walk.interpreters(resolved.clone(), search_path)?;
    }
    Ok(Checked { resolved, file_id: FileId::of(&found), findings: walk.findings })
}

struct Walk {
    us: Us,
    /// The device of the last component; on another one, the mount is looked at.
    device: Option<u64>,
    seen: HashSet<PathBuf>,
    findings: Vec<Finding>,
    script: Option<PathBuf>,
}

impl Walk {
    /// Goes from the root to the file, through links.
    fn follow(&mut self, path: &Path) -> io::Result<(PathBuf, Metadata)> {
        if !path.is_absolute() {
            let message = format!("`{}` is not an absolute path", path.display());
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let mut here = PathBuf::from("/");
        let mut found = look(&here)?;
        self.component(Part::Directory, &here, &found)?;
        let mut ahead = parts(path);
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&part);
            found = look(&next)?;
            if found.is_symlink() {
                links += 1;
                if links > LINKS {
                    return Err(named(&next, &rustix::io::Errno::LOOP.into()));
                }
                self.link(&next, &found)?;
                let to = fs::read_link(&next).map_err(|error| named(&next, &error))?;
                if to.is_absolute() {
                    here = PathBuf::from("/");
                }
                ahead.extend(parts(&to));
            } else {
                let part = if found.is_dir() { Part::Directory } else { Part::File };
                self.component(part, &next, &found)?;
                here = next;
            }
        }
        // After a `..` it is a directory again, and after a link to a directory one that was seen.
        let found = look(&here)?;
        Ok((here, found))
    }

    /// Follows the interpreter of a script, and that of its interpreter.
    fn interpreters(&mut self, file: PathBuf, search_path: &OsStr) -> io::Result<()> {
        let mut ahead = vec![(file, 0)];
        while let Some((file, depth)) = ahead.pop() {
            for interpreter in script::interpreters(&file, search_path)? {
                self.script = Some(file.clone());
                if interpreter.is_relative() {
                    self.fault(Part::File, &interpreter, Problem::Relative);
                } else if depth == SCRIPTS {
                    self.fault(Part::File, &interpreter, Problem::Nested);
                } else {
                    match self.follow(&interpreter) {
                        Ok((resolved, _)) => ahead.push((resolved, depth + 1)),
                        // What is not there does not run; the runner says so better.
                        Err(error) if error.kind() == ErrorKind::NotFound => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    fn component(&mut self, part: Part, path: &Path, found: &Metadata) -> io::Result<()> {
        if !self.seen.insert(path.to_owned()) {
            self.device = Some(found.dev());
            return Ok(());
        }
        self.mount(part, path, found)?;
        self.owner(part, path, found);
        // In a sticky directory only the owner of a file can rename or delete it.
        if part == Part::Directory && found.mode() & STICKY != 0 {
            return Ok(());
        }
        self.mode(part, path, found)
    }

    fn link(&mut self, path: &Path, found: &Metadata) -> io::Result<()> {
        if on_proc(path)? {
            self.fault(Part::Link, path, Problem::Magic);
        }
        self.owner(Part::Link, path, found);
        Ok(())
    }

    fn owner(&mut self, part: Part, path: &Path, found: &Metadata) {
        let owner = found.uid();
        if self.us.stand_in == Some(owner) {
            self.warning(part, path, Problem::UnknownOwner);
        } else if !self.us.includes(owner) {
            self.fault(part, path, Problem::Owner(owner));
        }
    }

    fn mode(&mut self, part: Part, path: &Path, found: &Metadata) -> io::Result<()> {
        let mode = found.mode() & 0o7777;
        if mode & WORLD_WRITES != 0 {
            self.fault(part, path, Problem::WorldWritable(mode));
        }
        // An access list can let somebody write only where the group's bits, which are its mask then,
        // do so too.
        if mode & GROUP_WRITES != 0 {
            let list = writers(path)?;
            let others = list.others(self.us);
            if !others.is_empty() {
                self.fault(part, path, Problem::Listed(others));
            }
            if list.group && mode & WORLD_WRITES == 0 {
                self.warning(part, path, Problem::GroupWritable(mode));
            }
        }
        Ok(())
    }

    fn mount(&mut self, part: Part, path: &Path, found: &Metadata) -> io::Result<()> {
        if self.device.replace(found.dev()) == Some(found.dev()) {
            return Ok(());
        }
        let Some((kind, user)) = forged(path, found)? else { return Ok(()) };
        match user {
            Some(user) if self.us.includes(user) => {}
            Some(user) if self.us.stand_in == Some(user) => {
                self.warning(part, path, Problem::UnknownOwner);
            }
            user => self.fault(part, path, Problem::Mount { kind, user }),
        }
        Ok(())
    }

    fn fault(&mut self, part: Part, path: &Path, problem: Problem) {
        self.find(part, path, problem, Severity::Fault);
    }

    fn warning(&mut self, part: Part, path: &Path, problem: Problem) {
        self.find(part, path, problem, Severity::Warning);
    }

    fn find(&mut self, part: Part, path: &Path, problem: Problem, severity: Severity) {
        let script = self.script.clone();
        self.findings.push(Finding { part, path: path.to_owned(), problem, severity, script });
    }
}

fn look(path: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(path).map_err(|error| named(path, &error))
}

/// An error that says which component could not be looked at.
pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// The parts of a path, last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(part) => Some(part.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// Who may write besides the owner and everybody.
#[derive(Default)]
pub(super) struct Writers {
    /// The file's own group.
    pub(super) group: bool,
    /// Users that an access list names.
    pub(super) users: Vec<u32>,
    /// Groups that an access list names.
    pub(super) groups: Vec<u32>,
}

impl Writers {
    fn others(&self, us: Us) -> Vec<String> {
        let users = self.users.iter().filter(|user| !us.includes(**user));
        let users = users.map(|user| format!("user {user}"));
        let groups = self.groups.iter().filter(|group| **group != 0);
        users.chain(groups.map(|group| format!("group {group}"))).collect()
    }
}

#[cfg(target_os = "linux")]
use super::{
    acl::writers,
    mount::{forged, on_proc},
};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    #![expect(clippy::unnecessary_wraps, reason = "Linux has errors here")]
    use super::{Metadata, Path, Writers, io};

    pub(super) fn writers(_path: &Path) -> io::Result<Writers> {
        Ok(Writers { group: true, ..Writers::default() })
    }

    pub(super) fn forged(
        _path: &Path,
        _found: &Metadata,
    ) -> io::Result<Option<(String, Option<u32>)>> {
        Ok(None)
    }

    pub(super) fn on_proc(_path: &Path) -> io::Result<bool> {
        Ok(false)
    }
}
#[cfg(not(target_os = "linux"))]
use elsewhere::{forged, on_proc, writers};
