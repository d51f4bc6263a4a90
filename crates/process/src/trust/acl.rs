//! POSIX access lists, as Linux keeps them in an extended attribute.

use std::{io, path::Path};

use rustix::{fs::lgetxattr, io::Errno};

use super::walk::{Writers, named};

const ATTRIBUTE: &str = "system.posix_acl_access";
const VERSION: u32 = 2;
const WRITE: u16 = 2;

const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// Who may write to a file whose mode lets its group write.
pub(super) fn writers(path: &Path) -> io::Result<Writers> {
    // The largest attribute that Linux has.
    let mut bytes = vec![0; 64 << 10];
    match lgetxattr(path, ATTRIBUTE, &mut bytes[..]) {
        Ok(length) => read(&bytes[..length]).ok_or_else(|| {
            let wrong = io::Error::new(io::ErrorKind::InvalidData, "its access list is unreadable");
            named(path, &wrong)
        }),
        // No list, and a file system without lists.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Writers { group: true, ..Writers::default() }),
        Err(errno) => Err(named(path, &errno.into())),
    }
}

fn read(bytes: &[u8]) -> Option<Writers> {
    let (version, entries) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let entries = entries.chunks_exact(8).map(|entry| {
        let short = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        (short(0), short(2), id)
    });
    let mask = entries.clone().find(|(tag, ..)| *tag == MASK).map_or(u16::MAX, |(_, perm, _)| perm);
    let mut writers = Writers::default();
    for (tag, perm, id) in entries {
        if perm & mask & WRITE == 0 {
            continue;
        }
        match tag {
            USER => writers.users.push(id),
            GROUP => writers.groups.push(id),
            GROUP_OBJ => writers.group = true,
            _ => {}
        }
    }
    Some(writers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(perm.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_mask_takes_from_everybody_it_is_for() {
        let named = [(1, 7, u32::MAX), (USER, 7, 1001), (GROUP_OBJ, 5, u32::MAX), (GROUP, 6, 7)];
        let with = |mask| {
            let all: Vec<_> = named.into_iter().chain([(MASK, mask, 0), (0x20, 5, 0)]).collect();
            read(&list(&all)).expect("a list")
        };
        let open = with(7);
        assert_eq!((open.group, open.users, open.groups), (false, vec![1001], vec![7]));
        let closed = with(5);
        assert_eq!((closed.group, closed.users, closed.groups), (false, vec![], vec![]));
    }

    #[test]
    fn what_is_no_list_is_nothing() {
        assert!(read(b"").is_none());
        assert!(read(&[2, 0, 0, 0, 1]).is_none());
        assert!(read(&[9, 0, 0, 0]).is_none());
    }
}
