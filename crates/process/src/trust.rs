//! Whether a program or a library can be trusted: could another user change what it does?
//!
//! [`program`] and [`library`] walk a path from `/` through every directory and link to the file, and
//! report whoever but root and us could change what is there: owners, modes, access lists, mounts whose
//! owner says what the owners of its files are, and the interpreters of scripts.
//!
//! Each directory is looked at before what is in it. Where there is no fault, nobody else can swap
//! anything between this check and the use of the path, because nobody else can write to any of it.
//!
//! ```
//! use keyward_process::trust;
//!
//! # fn main() -> std::io::Result<()> {
//! let checked = trust::program("/bin/sh".as_ref(), None)?;
//! match checked.faults().next() {
//!     None => println!("run `{}`", checked.resolved.display()),
//!     Some(fault) => println!("refused: {fault}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What is not seen: libraries that a program loads by itself, the environment it is given, and what it
//! runs. Those are the program's own business, and root's.

#[cfg(target_os = "linux")]
mod acl;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(unix)]
mod script;
#[cfg(all(test, target_os = "linux"))]
mod tests;
#[cfg(unix)]
mod walk;

use std::{
    ffi::OsStr,
    fmt, io,
    path::{Path, PathBuf},
};

use crate::FileId;

/// A file that was looked at, and what was found on the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The file's path without any link in it.
    pub resolved: PathBuf,
    /// The file itself, to be compared right before it is used.
    pub file_id: FileId,
    /// What was found, in the order of the walk.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// The reasons to refuse it, in the order of the walk.
    pub fn faults(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Fault)
    }

    /// What is worth knowing but no reason to refuse it.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Warning)
    }
}

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Warning,
    /// Another user could change what is run or loaded.
    Fault,
}

/// What is wrong with one component of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What the component is.
    pub part: Part,
    /// Where it is.
    pub path: PathBuf,
    /// What was found.
    pub problem: Problem,
    /// Whether it is a reason to refuse.
    pub severity: Severity,
    /// The script for whose interpreter this path was followed.
    pub script: Option<PathBuf>,
}

/// A component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// A directory on the way.
    Directory,
    /// A symbolic link.
    Link,
    /// The file itself.
    File,
}

/// Who could change a component, or why that cannot be told.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The component belongs to this user.
    Owner(u32),
    /// The owner is unknown in this user namespace, and may be root.
    UnknownOwner,
    /// The mode lets everybody write.
    WorldWritable(u32),
    /// The mode lets its group write.
    GroupWritable(u32),
    /// The access list lets these write, such as `user 1001`.
    Listed(Vec<String>),
    /// The file is on a mount whose content a process of this user controls.
    Mount {
        /// The kind of file system.
        kind: String,
        /// The user, where the system tells.
        user: Option<u32>,
    },
    /// The path goes through a link of `/proc`, which may lead elsewhere than it says.
    Magic,
    /// The path is relative, and so depends on the working directory.
    Relative,
    /// Scripts name each other as interpreters without end.
    Nested,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self.part {
            Part::Directory => "directory",
            Part::Link => "link",
            Part::File => "file",
        };
        write!(f, "{part} `{}` ", self.path.display())?;
        match &self.problem {
            Problem::Owner(user) => {
                write!(f, "belongs to user {user}, who is neither root nor you")?;
            }
            Problem::UnknownOwner => {
                f.write_str("belongs to root or to somebody else: this sandbox cannot tell")?;
            }
            Problem::WorldWritable(mode) => {
                write!(f, "can be written by everybody (mode {mode:04o})")?;
            }
            Problem::GroupWritable(mode) => {
                write!(f, "can be written by its group (mode {mode:04o})")?;
            }
            Problem::Listed(who) => {
                write!(f, "can be written by {}, by its access list", who.join(" and "))?;
            }
            Problem::Mount { kind, user } => {
                let user = user.map_or("an unknown user".into(), |user| format!("user {user}"));
                write!(f, "is on a `{kind}` mount of {user}, who can show anything there")?;
            }
            Problem::Magic => f.write_str("is a link of `/proc`, which may lead elsewhere")?,
            Problem::Relative => f.write_str("depends on the working directory")?,
            Problem::Nested => f.write_str("is a script whose interpreters are scripts in turn")?,
        }
        match &self.script {
            None => Ok(()),
            Some(script) => write!(f, "; script `{}` needs it", script.display()),
        }
    }
}

/// Checks a program, and the interpreters it names if it is a script. `search_path` is the `PATH` in
/// which `env` will look for one.
///
/// Fails when anything on the way cannot be looked at; that too is a reason to refuse. `path` has to be
/// absolute.
pub fn program(path: &Path, search_path: Option<&OsStr>) -> io::Result<Checked> {
    check(path, Some(search_path.unwrap_or_default()))
}

/// Checks a library or another file that is loaded and not run.
///
/// Fails as [`program`] does.
pub fn library(path: &Path) -> io::Result<Checked> {
    check(path, None)
}

/// The program that a script's first line names; `None` for what is no script or cannot be read.
pub fn interpreter(script: &Path) -> Option<PathBuf> {
    #[cfg(unix)]
    return script::interpreters(script, OsStr::new("")).ok()?.into_iter().next();
    #[cfg(not(unix))]
    return None;
}

#[cfg(unix)]
fn check(path: &Path, search_path: Option<&OsStr>) -> io::Result<Checked> {
    walk::check(path, search_path, walk::Us::now())
}

/// Windows has access lists instead of modes; they are not looked at.
#[cfg(not(unix))]
fn check(path: &Path, _search_path: Option<&OsStr>) -> io::Result<Checked> {
    Ok(Checked { resolved: path.to_owned(), file_id: FileId::read(path)?, findings: Vec::new() })
}
