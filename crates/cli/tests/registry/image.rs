//! The smallest image there is, as an OCI layout: no tool is needed to make it.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// A tar archive without files.
const EMPTY_TAR: [u8; 1024] = [0; 1024];

/// Writes the layout to a directory.
pub(crate) fn write(folder: &Path) {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let keep = |bytes: &[u8]| {
        let digest = digest(bytes);
        fs::write(blobs.join(&digest), bytes).unwrap();
        (format!("sha256:{digest}"), bytes.len())
    };
    let (layer, layer_size) = keep(&EMPTY_TAR);
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": { "type": "layers", "diff_ids": [layer] },
    });
    let (config, config_size) = keep(config.to_string().as_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config, config_size),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer, layer_size)],
    });
    let (manifest, size) = keep(manifest.to_string().as_bytes());
    let index = json!({
        "schemaVersion": 2,
        "manifests": [descriptor("application/vnd.oci.image.manifest.v1+json", &manifest, size)],
    });
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

/// The digests of a layout's blobs, sorted.
pub(crate) fn blobs(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("blobs/sha256")).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = entries.map(|e| name(e).into_string().unwrap()).collect();
    names.sort();
    names
}

fn descriptor(kind: &str, digest: &str, size: usize) -> Value {
    json!({ "mediaType": kind, "digest": digest, "size": size })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
