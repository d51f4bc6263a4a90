//! Archives with the same bytes for the same tree: sorted, owned by root, with one time for all files.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use super::tree::{Entry, Tree};

/// A tar archive of the tree, with every directory before what is in it.
pub fn tar(tree: &Tree, time: u64) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    let mut known = BTreeSet::new();
    for (path, entry) in tree.entries() {
        for (end, _) in path.match_indices('/') {
            if known.insert(path[..end].to_owned()) {
                let mut header = header(EntryType::Directory, 0o755, time, &[])?;
                builder.append_data(&mut header, format!("{}/", &path[..end]), io::empty())?;
            }
        }
        match entry {
            Entry::File(bytes, mode) => {
                let mut header = header(EntryType::Regular, *mode, time, bytes)?;
                builder.append_data(&mut header, path, bytes.as_slice())?;
            }
            Entry::Directory(mode, owner) => {
                known.insert(path.to_owned());
                let mut header = header(EntryType::Directory, *mode, time, &[])?;
                if *owner != 0 {
                    header.set_uid(u64::from(*owner));
                    header.set_gid(u64::from(*owner));
                    header.set_username("")?;
                    header.set_groupname("")?;
                }
                builder.append_data(&mut header, format!("{path}/"), io::empty())?;
            }
            Entry::Link(to) => {
                let mut header = header(EntryType::Symlink, 0o777, time, &[])?;
                builder.append_link(&mut header, path, to)?;
            }
        }
    }
    builder.into_inner()
}

/// The usual level: the highest takes more than twice as long for half a percent less.
pub const LEVEL: Compression = Compression::new(6);

/// The bytes, compressed, without a name or a time.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), LEVEL);
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn header(kind: EntryType, mode: u32, time: u64, bytes: &[u8]) -> io::Result<Header> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_size(bytes.len() as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}
