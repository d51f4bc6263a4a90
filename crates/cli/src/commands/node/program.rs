//! Programs that are copied to a node.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, ErrorKind, Read as _, Seek as _, Write},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use keyward_process::FileId;
use ring::digest::{Context, Digest, SHA256};
use rustix::fs::OFlags;

use super::dir::failed;
use crate::{failure::Failure, globals::Globals, trusted};

/// More than any provider has.
const MOST: u64 = 1 << 30;

/// A program to copy. It is open: what was checked is what is copied.
pub(super) struct Program {
    file: File,
    digest: Digest,
}

impl Program {
    /// Opens a program. Fails if another user could change it.
    pub(super) fn open(path: &Path, globals: &Globals) -> Result<Self, Failure> {
        let checked = trusted::program(path, globals)?;
        let mut options = OpenOptions::new();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = options.open(&checked.resolved).map_err(failed("open", path))?;
        let found = file.metadata().map_err(failed("open", path))?;
        if FileId::of(&found) != checked.file_id {
            return Err(failed("open", path)(changed()));
        }
        Self::of(file, path)
    }

    /// This program as it is running, even if its file has been replaced since it started.
    pub(super) fn own() -> Result<Self, Failure> {
        let path = PathBuf::from("/proc/self/exe");
        Self::of(File::open(&path).map_err(failed("open", &path))?, &path)
    }

    fn of(file: File, path: &Path) -> Result<Self, Failure> {
        let digest = transfer(&file, &mut io::sink()).map_err(failed("read", path))?;
        Ok(Self { file, digest })
    }

    pub(super) fn digest(&self) -> &[u8] {
        self.digest.as_ref()
    }

    /// Writes a copy that everybody can run, and that is complete on the disk.
    pub(super) fn copy_to(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut copy = options.write(true).create_new(true).mode(0o700).open(path)?;
        if transfer(&self.file, &mut copy)?.as_ref() != self.digest() {
            return Err(changed());
        }
        copy.set_permissions(Permissions::from_mode(0o755))?;
        copy.sync_all()
    }
}

/// Copies the whole file; the digest of what was copied.
fn transfer(mut from: &File, to: &mut impl Write) -> io::Result<Digest> {
    from.rewind()?;
    let mut digest = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    let mut left = MOST;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(digest.finish());
        }
        left = left.checked_sub(count as u64).ok_or_else(|| {
            let message = format!("it is larger than {} MiB", MOST >> 20);
            io::Error::new(ErrorKind::FileTooLarge, message)
        })?;
        digest.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
}

fn changed() -> io::Error {
    io::Error::other("it was changed meanwhile")
}
