//! The crates inside the programs, as cargo resolves them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{capture, read_error};
use crate::sh;

/// A crate's name and version.
pub type Id = (String, String);

/// A crate that is inside a program.
#[derive(Debug, Default, Clone)]
pub struct Dependency {
    /// The SPDX expression.
    pub license: String,
    /// Where it is developed.
    pub repository: Option<String>,
    /// Where its sources are on this machine.
    pub directory: PathBuf,
    /// The SHA-256 of its package; none for crates of this workspace.
    pub checksum: Option<String>,
    /// The crates that it uses.
    pub uses: BTreeSet<Id>,
}

impl Dependency {
    /// Whether it is a crate of this workspace.
    pub fn is_own(&self) -> bool {
        self.checksum.is_none()
    }
}

/// Finds the crates that are linked into the programs for `target`, without those that only run at build
/// time.
pub fn find(source: &Path, target: &str) -> Result<BTreeMap<Id, Dependency>, String> {
    let mut tree = sh::cargo();
    tree.current_dir(source).args(["tree", "--locked", "--target", target]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "|{p}"]);
    for package in super::sbom::PROGRAMS {
        tree.args(["--package", package]);
    }
    let mut found = uses(&capture(&mut tree)?)?;
    let mut metadata = sh::cargo();
    metadata.current_dir(source).args(["metadata", "--locked", "--format-version", "1"]);
    metadata.args(["--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&capture(&mut metadata)?)
        .map_err(|e| format!("cannot read cargo's metadata: {e}"))?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let (Some(name), Some(version)) = (text(&package["name"]), text(&package["version"]))
        else {
            continue;
        };
        let Some(dependency) = found.get_mut(&(name, version)) else { continue };
        dependency.license = text(&package["license"]).unwrap_or_default().replace('/', " OR ");
        dependency.repository = text(&package["repository"]);
        let manifest = PathBuf::from(text(&package["manifest_path"]).unwrap_or_default());
        dependency.directory = manifest.parent().map(Path::to_owned).unwrap_or_default();
    }
    let lock = source.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(read_error(&lock))?;
    for (id, checksum) in checksums(&lock) {
        if let Some(dependency) = found.get_mut(&id) {
            dependency.checksum = Some(checksum);
        }
    }
    Ok(found)
}

/// Reads `cargo tree`: a line is `DEPTH|NAME vVERSION`, and ends with `(*)` where the crate was shown before.
fn uses(tree: &str) -> Result<BTreeMap<Id, Dependency>, String> {
    let mut found: BTreeMap<Id, Dependency> = BTreeMap::new();
    let mut path: Vec<Id> = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        let unclear = || format!("cannot read a line of `cargo tree`: {line}");
        let (depth, rest) = line.split_once('|').ok_or_else(unclear)?;
        let depth: usize = depth.parse().map_err(|_| unclear())?;
        let mut words = rest.split_whitespace();
        let name = words.next().ok_or_else(unclear)?;
        let version = words.next().and_then(|word| word.strip_prefix('v')).ok_or_else(unclear)?;
        let id = (name.to_owned(), version.to_owned());
        path.truncate(depth);
        if let Some(user) = path.last() {
            found.entry(user.clone()).or_default().uses.insert(id.clone());
        }
        found.entry(id.clone()).or_default();
        path.push(id);
    }
    Ok(found)
}

/// The checksums of Cargo.lock.
fn checksums(lock: &str) -> Vec<(Id, String)> {
    let value = |block: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let blocks = lock.split("[[package]]").skip(1);
    blocks
        .filter_map(|block| {
            Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str, version: &str) -> Id {
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn the_tree_says_which_crate_uses_which() {
        let tree = "0|a v1.0.0 (/x y/a)\n1|b v0.2.0\n2|c v3.1.4\n1|c v3.1.4 (*)\n\n0|d v1.0.0\n1|b v0.2.0 (*)\n";
        let found = uses(tree).unwrap();
        assert_eq!(found[&id("a", "1.0.0")].uses, [id("b", "0.2.0"), id("c", "3.1.4")].into());
        assert_eq!(found[&id("b", "0.2.0")].uses, [id("c", "3.1.4")].into());
        assert_eq!(found[&id("d", "1.0.0")].uses, [id("b", "0.2.0")].into());
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn only_crates_of_a_registry_have_a_checksum() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"b\"\n\
                    version = \"0.2.0\"\nsource = \"registry\"\nchecksum = \"abc\"\n";
        assert_eq!(checksums(lock), [(id("b", "0.2.0"), "abc".to_owned())]);
    }
}
