//! `cargo xtask dist --verify`: builds everything twice, in two directories, and compares the bytes.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{compile, pack, package::Release, sums, write_error};

/// Builds the last commit twice. Whether all files are the same; the first set goes to `out`.
pub fn run(root: &Path, out: &Path, release: &Release) -> Result<bool, String> {
    let place = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
    // Names of different lengths, so that a path inside a file also moves what follows it.
    let names = ["a", "another-directory"];
    let mut outs = Vec::new();
    for name in names {
        let base = place.path().join(name);
        let source = base.join("source");
        check_out(root, &source)?;
        let stage = base.join("programs");
        let built = compile::build(&source, &base.join("target"), &stage, release.time)?;
        let made = base.join("dist");
        pack(&source, &built, &made, release)?;
        outs.push(made);
    }
    let differing = differing(&outs[0], &outs[1])?;
    for name in &differing {
        println!("not reproducible: {name}");
    }
    if out.exists() {
        fs::remove_dir_all(out).map_err(write_error(out))?;
    }
    fs::create_dir_all(out).map_err(write_error(out))?;
    for name in sums::file_names(&outs[0])? {
        let to = out.join(&name);
        fs::copy(outs[0].join(&name), &to).map_err(write_error(&to))?;
    }
    if differing.is_empty() {
        println!("reproducible: both builds made the same {} files", sums::file_names(out)?.len());
    }
    Ok(differing.is_empty())
}

/// Writes the files of the last commit.
fn check_out(root: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(write_error(to))?;
    let mut archive = Command::new("git")
        .current_dir(root)
        .args(["archive", "--format=tar", "HEAD"])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start `git`: {e}"))?;
    let stdout = archive.stdout.take().ok_or("git has no stdout")?;
    let unpacked = tar::Archive::new(stdout).unpack(to).map_err(write_error(to));
    let status = archive.wait().map_err(|e| format!("cannot wait for `git`: {e}"))?;
    unpacked?;
    if status.success() { Ok(()) } else { Err(format!("`git archive` failed: {status}")) }
}

/// The names of files that only one directory has, or that have other bytes.
fn differing(one: &Path, other: &Path) -> Result<Vec<String>, String> {
    let mut names = sums::file_names(one)?;
    names.extend(sums::file_names(other)?);
    names.sort();
    names.dedup();
    let read = |directory: &Path, name: &String| fs::read(directory.join(name)).ok();
    names.retain(|name| {
        let bytes = read(one, name);
        bytes.is_none() || bytes != read(other, name)
    });
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_missing_is_named() {
        let place = tempfile::tempdir().unwrap();
        let directories = ["one", "other"].map(|name| place.path().join(name));
        for (directory, text) in directories.iter().zip(["x", "y"]) {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("same"), "text").unwrap();
            fs::write(directory.join("changed"), text).unwrap();
        }
        fs::write(directories[0].join("alone"), "text").unwrap();
        assert_eq!(differing(&directories[0], &directories[1]).unwrap(), ["alone", "changed"]);
        assert_eq!(differing(&directories[1], &directories[0]).unwrap(), ["alone", "changed"]);
    }
}
