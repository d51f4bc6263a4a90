//! Mounts whose files have the owners that somebody says they have.

use std::{fs::Metadata, io, os::unix::fs::MetadataExt, path::Path};

use rustix::fs::{FsWord, PROC_SUPER_MAGIC, major, minor, statfs};

use super::walk::named;
use crate::file::{self, Limits};

/// What `statfs` calls a file system whose answers come from a process.
const FUSE_SUPER_MAGIC: FsWord = 0x6573_5546;

/// The kind and the user of a mount behind which a process of a user answers; `None` for every other.
///
/// Other file systems are mounted by root, who answers for what a server or an image says.
pub(super) fn forged(path: &Path, found: &Metadata) -> io::Result<Option<(String, Option<u32>)>> {
    let fs = statfs(path).map_err(|errno| named(path, &errno.into()))?;
    if fs.f_type != FUSE_SUPER_MAGIC {
        return Ok(None);
    }
    let table = "/proc/self/mountinfo";
    let mounts = file::read(table.as_ref(), &Limits::NAMED)
        .map_err(|error| named(table.as_ref(), &error))?;
    let mounts = String::from_utf8_lossy(&mounts);
    Ok(user_of(&mounts, major(found.dev()), minor(found.dev())))
}

/// Whether a link is one of `/proc`.
pub(super) fn on_proc(link: &Path) -> io::Result<bool> {
    let Some(directory) = link.parent() else { return Ok(false) };
    let fs = statfs(directory).map_err(|errno| named(directory, &errno.into()))?;
    Ok(fs.f_type == PROC_SUPER_MAGIC)
}

/// Reads `/proc/self/mountinfo`: `id parent major:minor root point options … - kind source super`.
fn user_of(mounts: &str, major: u32, minor: u32) -> Option<(String, Option<u32>)> {
    let device = format!("{major}:{minor}");
    for line in mounts.lines() {
        if line.split(' ').nth(2) != Some(device.as_str()) {
            continue;
        }
        let Some((_, after)) = line.split_once(" - ") else { continue };
        let mut fields = after.split(' ');
        let kind = fields.next().unwrap_or_default();
        // Virtual machines share directories of their host with it, and only root mounts those.
        if kind == "virtiofs" {
            return None;
        }
        let options = fields.nth(1).unwrap_or_default();
        let user = options.split(',').find_map(|option| option.strip_prefix("user_id="));
        return Some((kind.to_owned(), user.and_then(|user| user.parse().ok())));
    }
    Some(("fuse".to_owned(), None))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
29 1 254:0 / / rw,relatime - ext4 /dev/vda rw
41 29 0:44 / /home/me/remote rw,nosuid,nodev - fuse.sshfs host: rw,user_id=1000,group_id=1000
42 29 0:45 / /mnt/my\\040disk rw shared:2 - fuseblk /dev/sda1 rw,user_id=0,group_id=0,allow_other
43 29 0:46 / /shared rw - virtiofs share rw
";

    #[test]
    fn the_user_of_a_fuse_mount_is_found_by_its_device() {
        let user = |minor| user_of(MOUNTS, 0, minor);
        assert_eq!(user(44), Some(("fuse.sshfs".into(), Some(1000))));
        assert_eq!(user(45), Some(("fuseblk".into(), Some(0))));
        assert_eq!(user(46), None);
        assert_eq!(user(47), Some(("fuse".into(), None)), "a mount that is not listed");
    }
}
