//! A container image with one program that sleeps, as an OCI layout.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::Outcome;

/// A program with everything inside it (Debian package busybox-static).
const BUSYBOX: &str = "/usr/bin/busybox";

/// Writes the image to this directory.
pub fn write(dir: &Path) -> Outcome<()> {
    let blobs = dir.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let layer = blob(&blobs, &layer()?, "layer.v1.tar")?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": { "Entrypoint": ["/bin/busybox", "sleep", "infinity"] },
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    });
    let config = blob(&blobs, config.to_string().as_bytes(), "config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media_type("manifest.v1+json"),
        "config": config,
        "layers": [layer],
    });
    let manifest = blob(&blobs, manifest.to_string().as_bytes(), "manifest.v1+json")?;
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(dir.join("index.json"), index.to_string())?;
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(())
}

fn layer() -> Outcome<Vec<u8>> {
    let program = fs::read(BUSYBOX)
        .map_err(|e| format!("cannot read `{BUSYBOX}` (Debian package busybox-static): {e}"))?;
    let mut header = tar::Header::new_gnu();
    header.set_size(program.len() as u64);
    header.set_mode(0o755);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, PathBuf::from("bin/busybox"), program.as_slice())?;
    Ok(archive.into_inner()?)
}

/// Writes a blob and describes it.
fn blob(dir: &Path, bytes: &[u8], kind: &str) -> Outcome<Value> {
    let hash = digest(&SHA256, bytes);
    let mut hex = String::new();
    for byte in hash.as_ref() {
        write!(hex, "{byte:02x}")?;
    }
    fs::write(dir.join(&hex), bytes)?;
    Ok(json!({
        "mediaType": media_type(kind),
        "digest": format!("sha256:{hex}"),
        "size": bytes.len(),
    }))
}

fn media_type(kind: &str) -> String {
    format!("application/vnd.oci.image.{kind}")
}

/// This machine's, as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
