//! The OCI image, without a container engine: another program reads it, and its layer becomes a root.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use super::{Stage, expect, in_root, prints};
use crate::dist::{oci, read_error, write_error};

pub(super) fn works(stage: &Stage<'_>) -> Result<(), String> {
    let archive = stage.package(&oci::file_name(stage.release))?;
    let layout = stage.directory.join("layout");
    let mut copy = Command::new("skopeo");
    copy.args(["--insecure-policy", "copy", "--quiet"]);
    copy.arg(format!("oci-archive:{}", archive.display()))
        .arg(format!("oci:{}:it", layout.display()));
    prints(&mut copy)?;

    let index = json(&layout.join("index.json"))?;
    let manifest = json(&blob(&layout, &index["manifests"][0])?)?;
    let config = json(&blob(&layout, &manifest["config"])?)?;
    let root = stage.directory.join("root");
    // A runtime provides this one.
    fs::create_dir_all(root.join("proc")).map_err(write_error(&root))?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--preserve-permissions", "--file"]);
        prints(tar.arg(blob(&layout, layer)?).arg("--directory").arg(&root))?;
    }
    let user = config["config"]["User"].as_str().ok_or("the image names no user")?;
    let program = config["config"]["Entrypoint"][0].as_str().ok_or("the image names no program")?;
    let mut demo = in_root(&root, &["--userspec", user], &[program, "demo"]);
    for variable in config["config"]["Env"].as_array().into_iter().flatten() {
        let (name, value) = variable.as_str().and_then(|v| v.split_once('=')).unwrap_or_default();
        demo.env(name, value);
    }
    // `unshare` itself is not in the image.
    demo.env("PATH", format!("{}:/usr/bin", super::PATH));
    expect(&prints(&mut demo)?, "promises kept")
}

fn json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(read_error(path))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("cannot read `{}`: {e}", path.display()))
}

/// The file that a descriptor names.
fn blob(layout: &Path, descriptor: &Value) -> Result<std::path::PathBuf, String> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let digest = digest.ok_or_else(|| format!("no digest in {descriptor}"))?;
    Ok(layout.join("blobs/sha256").join(digest))
}
