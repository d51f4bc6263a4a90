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
    // A container's runtime provides these.
    for directory in ["proc", "dev"] {
        fs::create_dir_all(root.join(directory)).map_err(write_error(&root))?;
    }
    let null = root.join("dev/null");
    prints(Command::new("mknod").args(["--mode", "666"]).arg(null).args(["c", "1", "3"]))?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--preserve-permissions", "--file"]);
        prints(tar.arg(blob(&layout, layer)?).arg("--directory").arg(&root))?;
    }
    let user = config["config"]["User"].as_str().ok_or("the image names no user")?;
    let program = config["config"]["Entrypoint"][0].as_str().ok_or("the image names no program")?;
    for (name, user) in [("inner", STATIC), ("outer", PLUGIN)] {
        let text = format!(
            "{{clusters: [{CLUSTER}], contexts: [{CONTEXT}], current-context: it, users: [{user}]}}"
        );
        let path = root.join("home/keyward").join(name);
        fs::write(&path, text).map_err(write_error(&path))?;
    }
    // A plugin runs: the only program there is.
    let words = [program, "credential", "--kubeconfig", "/home/keyward/outer"];
    let mut credential = in_root(&root, &["--userspec", user], &words);
    for variable in config["config"]["Env"].as_array().into_iter().flatten() {
        let (name, value) = variable.as_str().and_then(|v| v.split_once('=')).unwrap_or_default();
        credential.env(name, value);
    }
    // `unshare` itself is not in the image.
    credential.env("PATH", super::PATH);
    expect(&prints(&mut credential)?, "\"token\":\"a-token\"")
}

const CLUSTER: &str = "{name: it, cluster: {server: 'https://api.keyward.test'}}";
const CONTEXT: &str = "{name: it, context: {cluster: it, user: it}}";
const STATIC: &str = "{name: it, user: {token: a-token}}";
const PLUGIN: &str = "{name: it, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: keyward, \
                      args: [credential, --kubeconfig, /home/keyward/inner], interactiveMode: Never}}}";

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
