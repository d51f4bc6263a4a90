//! The JSON files in which registrations and journals are kept.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use keyward_protocol::{Node, json};

/// Writes a file that only its owner can read, and its directory if need be. A reader finds the old
/// content or the new one, whole.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let beside = path.with_extension("new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// Removes a file. A missing one is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A text in double quotes, for JSON and YAML alike.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::new();
    json::push_text(&mut out, text);
    out
}

/// The text of a node; `None` if it is none.
pub(crate) fn text(node: &Node) -> Option<String> {
    node.text("").ok().flatten().map(str::to_owned)
}

/// What `read` makes of the items of a list; `None` if it is no list, or for an item that cannot be
/// read.
pub(crate) fn list<T>(node: &Node, read: impl Fn(&Node) -> Option<T>) -> Option<Vec<T>> {
    node.list("").ok().flatten()?.iter().map(read).collect()
}
