//! Wraps and unwraps kubeconfig files: reads, locks, writes and keeps the journal.

use std::{
    ffi::OsString,
    fmt,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::{Path, PathBuf},
};

use keyward_process::{
    FileId, LockFile,
    file::{self, Limits},
};

use super::{
    Edit, Edited, Journal, Native, Pin, Refusal, Wrapping, journal::Base, unwrap, wrap,
    wrapped_users,
};

/// What happened to a kubeconfig, or would happen to it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The file, with symlinks resolved.
    pub file: PathBuf,
    /// The changes, compared with the file without any wrapper.
    pub edits: Vec<Edit>,
    /// The users that were wrapped or unwrapped now.
    pub changed: Vec<String>,
    /// The chosen users that needed no change.
    pub unchanged: Vec<String>,
    /// Users that were unwrapped without a journal, so their style may differ from the original.
    pub restyled: Vec<String>,
    /// Users that were wrapped until another program rewrote the kubeconfig.
    pub overwritten: Vec<String>,
    /// The new content of the file.
    pub bytes: Vec<u8>,
}

/// Why a kubeconfig was not changed.
#[derive(Debug)]
pub enum Failure {
    /// The kubeconfig cannot be edited safely.
    Refused(Refusal),
    /// Another program holds the kubeconfig's lock.
    Locked(PathBuf),
    /// The kubeconfig changed while we edited it.
    Changed,
    /// The kubeconfig cannot be read or written.
    Io(&'static str, io::Error),
}

/// Wraps the users of a kubeconfig file that `chosen` selects. With `dry`, nothing is written.
pub fn wrap_file(
    path: &Path,
    journals: &Path,
    wrapping: &Wrapping<'_>,
    chosen: impl Fn(&str) -> bool,
    dry: bool,
) -> Result<Outcome, Failure> {
    let open = Open::new(path, dry)?;
    let journal = Journal::load(journals, &open.target);
    let before = wrapped_users(&open.bytes).map_err(Failure::Refused)?;
    let Base { bytes: base, users: known } = take_back(journal.as_ref(), &open.bytes);
    // Users that were wrapped before keep their pins.
    let mut pins = wrapping.pins.to_vec();
    let is_new =
        |pin: &&Pin| !wrapping.pins.iter().any(|p| (&p.user, &p.name) == (&pin.user, &pin.name));
    pins.extend(journal.iter().flat_map(|j| &j.pins).filter(is_new).cloned());
    // They keep their providers, too.
    let mut natives = wrapping.natives.to_vec();
    let earlier: Vec<_> = journal.iter().flat_map(|j| &j.natives).cloned().collect();
    let is_new = |native: &&Native| !wrapping.natives.iter().any(|n| n.user == native.user);
    natives.extend(earlier.iter().filter(is_new).cloned());
    let replaced = |user: &String| {
        natives.iter().any(|native| native.user == *user && !earlier.contains(native))
    };
    let wrapping = &Wrapping { pins: &pins, natives: &natives, ..*wrapping };
    let edited = wrap(&base, wrapping, |user| chosen(user) || known.iter().any(|k| k == user));
    let edited = edited.map_err(Failure::Refused)?;
    let (unchanged, changed): (Vec<_>, Vec<_>) =
        edited.users.iter().cloned().partition(|user| before.contains(user) && !replaced(user));
    let mut unchanged: Vec<_> = unchanged.into_iter().filter(|user| chosen(user)).collect();
    // Users that were wrapped by hand, or on another machine.
    let by_others = before.iter().filter(|user| chosen(user) && !edited.users.contains(user));
    unchanged.extend(by_others.cloned());
    let overwritten = journal.iter().flat_map(|j| &j.users).filter(|user| !before.contains(user));
    let overwritten = overwritten.cloned().collect();
    if !dry && !edited.edits.is_empty() {
        Journal::new(&open.target, &edited, wrapping).write(journals)?;
        open.replace(&edited.bytes)?;
    }
    let Edited { bytes, edits, .. } = edited;
    let file = open.target.clone();
    Ok(Outcome { file, edits, changed, unchanged, overwritten, bytes, ..Outcome::default() })
}

/// Unwraps the users of a kubeconfig file that `chosen` selects: byte for byte, unless something
/// else in the file changed. With `dry`, nothing is written.
pub fn unwrap_file(
    path: &Path,
    journals: &Path,
    chosen: impl Fn(&str) -> bool,
    dry: bool,
) -> Result<Outcome, Failure> {
    let open = Open::new(path, dry)?;
    let journal = Journal::load(journals, &open.target);
    let before = wrapped_users(&open.bytes).map_err(Failure::Refused)?;
    let Base { bytes: base, users: known } = take_back(journal.as_ref(), &open.bytes);
    // Users that stay wrapped are wrapped again as they were.
    let stay: Vec<_> = known.iter().filter(|user| !chosen(user)).cloned().collect();
    let wrapping = Wrapping {
        wrapper: journal.as_ref().map_or("", |journal| &journal.wrapper),
        directory: path.parent().unwrap_or(Path::new("/")),
        pins: journal.as_ref().map_or(&[], |journal| &journal.pins),
        natives: journal.as_ref().map_or(&[], |journal| &journal.natives),
    };
    let restyled: Vec<_> =
        before.iter().filter(|user| chosen(user) && !known.contains(user)).cloned().collect();
    let loose = unwrap(&base, |user| restyled.iter().any(|r| r == user));
    let loose = loose.map_err(Failure::Refused)?;
    let edited = wrap(&loose.bytes, &wrapping, |user| stay.iter().any(|s| s == user));
    let edited = edited.map_err(Failure::Refused)?;
    let changed: Vec<_> = before.iter().filter(|user| chosen(user)).cloned().collect();
    let overwritten = journal.iter().flat_map(|j| &j.users).filter(|user| !before.contains(user));
    let overwritten = overwritten.cloned().collect();
    if !dry {
        if edited.users.is_empty() {
            open.replace(&edited.bytes)?;
            Journal::remove(journals, &open.target)?;
        } else {
            let written = Journal::new(&open.target, &edited, &wrapping).write(journals);
            open.replace(&edited.bytes)?;
            written?;
        }
    }
    Ok(Outcome {
        file: open.target.clone(),
        changed,
        restyled,
        overwritten,
        bytes: edited.bytes,
        ..Outcome::default()
    })
}

fn take_back(journal: Option<&Journal>, bytes: &[u8]) -> Base {
    journal.map_or_else(|| Base::unchanged(bytes), |journal| journal.take_back(bytes))
}

/// A kubeconfig that was read, and is locked if it will be written.
pub(super) struct Open {
    /// The file itself, with symlinks resolved.
    pub(super) target: PathBuf,
    pub(super) bytes: zeroize::Zeroizing<Vec<u8>>,
    file_id: FileId,
    _locks: Vec<LockFile>,
}

impl Open {
    pub(super) fn new(path: &Path, dry: bool) -> Result<Self, Failure> {
        let unreadable = |error| Failure::Io("it cannot be read", error);
        let target = path.canonicalize().map_err(unreadable)?;
        let mut locks = Vec::new();
        if !dry {
            // kubectl puts its lock next to the path it was given; programs that resolve symlinks,
            // next to the file.
            locks.push(lock(path)?);
            if path.parent().and_then(|p| p.canonicalize().ok()).as_deref() != target.parent()
                || path.file_name() != target.file_name()
            {
                locks.push(lock(&target)?);
            }
        }
        let file_id = FileId::read(&target).map_err(unreadable)?;
        let bytes = file::read(&target, &Limits::GIVEN.regular()).map_err(unreadable)?;
        Ok(Self { target, bytes, file_id, _locks: locks })
    }

    /// Writes a temporary file next to the kubeconfig and renames it, so that nobody reads half of
    /// it. A file that is a mount, or has hard links, is written in place.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<(), Failure> {
        if bytes == self.bytes.as_slice() {
            return Ok(());
        }
        let unwritable = |error| Failure::Io("it cannot be written", error);
        let found = fs::metadata(&self.target).map_err(unwritable)?;
        if FileId::of(&found) != self.file_id {
            return Err(Failure::Changed);
        }
        // A user who may not write the file should not replace it either.
        OpenOptions::new().write(true).open(&self.target).map_err(unwritable)?;
        let linked = found.nlink() > 1;
        if !linked && self.beside(&found, bytes).is_ok() {
            return Ok(());
        }
        self.in_place(bytes).map_err(unwritable)
    }

    fn beside(&self, found: &fs::Metadata, bytes: &[u8]) -> io::Result<()> {
        let beside = with_suffix(&self.target, ".keyward-new");
        let mut options = OpenOptions::new();
        let mut file = match options.write(true).create_new(true).mode(0o600).open(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left behind by a run that was killed: we hold the lock.
                fs::remove_file(&beside)?;
                options.open(&beside)?
            }
            file => file?,
        };
        let done = file
            .write_all(bytes)
            .and_then(|()| own_as(&file, found))
            .and_then(|()| file.set_permissions(Permissions::from_mode(found.mode() & 0o7777)))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&beside, &self.target));
        done.inspect_err(|_| _ = fs::remove_file(&beside))
    }

    fn in_place(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(&self.target)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    }
}

fn own_as(file: &File, found: &fs::Metadata) -> io::Result<()> {
    let made = file.metadata()?;
    if (made.uid(), made.gid()) == (found.uid(), found.gid()) {
        return Ok(());
    }
    fchown(file, Some(found.uid()), Some(found.gid()))
}

/// Takes the lock of a kubeconfig. Fails if another program has it.
fn lock(path: &Path) -> Result<LockFile, Failure> {
    let taken =
        LockFile::take(path).map_err(|error| Failure::Io("its lock cannot be made", error))?;
    taken.ok_or_else(|| Failure::Locked(LockFile::path(path)))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    name.into()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.message()),
            Self::Locked(lock) => {
                write!(f, "another program is writing it: `{}` exists", lock.display())
            }
            Self::Changed => f.write_str("another program changed it meanwhile"),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for Failure {}
