//! Copies of nodes' files, as published bootstrap scripts create them; `nodes/README.md` has the sources.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The root directory of the node with this layout.
pub fn root(layout: &str) -> PathBuf {
    directory().join(layout)
}

/// The names of all layouts.
///
/// # Panics
///
/// When the directory cannot be read.
pub fn layouts() -> Vec<String> {
    let entries = fs::read_dir(directory()).expect("the directory of the layouts");
    let entries = entries.map(|entry| entry.expect("a layout"));
    let mut names: Vec<_> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("nodes")
}
