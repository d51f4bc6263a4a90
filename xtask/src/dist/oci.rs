//! An OCI image layout in a tar archive, which `skopeo` and container engines read.

use serde_json::{Value, json};

use super::{archive, package::Release, sums::sha256, tree::Tree};

/// The file's name.
pub fn file_name(release: &Release) -> String {
    format!("keyward-{}-{}.oci.tar", release.version, release.go_arch())
}

/// The user that the image runs as: none that a machine has.
const USER: u32 = 65532;

/// How the image stores its files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// For people.
    Compressed,
    /// For tests, which are faster without.
    Plain,
}

/// The image's bytes. `tree` has what is below `/usr`, `extra` what the programs need beside themselves: the libraries
/// of a dynamic build.
pub fn build(tree: &Tree, extra: &Tree, release: &Release, form: Layer) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("cannot build the image: {e}");
    let mut root = tree.under("usr");
    root.extend(extra.clone());
    root.file(
        "etc/passwd",
        format!(
            "root:x:0:0::/root:/bin/false\nkeyward:x:{USER}:{USER}::/home/keyward:/bin/false\n"
        ),
    );
    root.file("etc/group", format!("root:x:0:\nkeyward:x:{USER}:\n"));
    root.directory("tmp", 0o1777, 0);
    root.directory("home/keyward", 0o700, USER);
    let layer = archive::tar(&root, release.time).map_err(failed)?;
    let diff_id = format!("sha256:{}", sha256(&layer));
    let (packed, kind) = match form {
        Layer::Compressed => (archive::gzip(&layer).map_err(failed)?, LAYER_GZIP),
        Layer::Plain => (layer, LAYER),
    };

    let created = release.timestamp()?;
    let config = json!({
        "created": created,
        "architecture": release.go_arch(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "HOME=/home/keyward"],
            "Entrypoint": ["/usr/bin/keyward"],
            "WorkingDir": "/home/keyward",
            "Labels": labels(release),
        },
        "rootfs": { "type": "layers", "diff_ids": [diff_id] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor(kind, &packed)],
    });
    let manifest = manifest.to_string().into_bytes();
    let mut entry = descriptor(MANIFEST, &manifest);
    entry["platform"] = json!({ "architecture": release.go_arch(), "os": "linux" });
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": release.version });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] });

    let mut layout = Tree::default();
    layout.file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string());
    layout.file("index.json", index.to_string());
    for blob in [config, manifest, packed] {
        layout.file(format!("blobs/sha256/{}", sha256(&blob)), blob);
    }
    archive::tar(&layout, release.time).map_err(failed)
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

fn labels(release: &Release) -> Value {
    json!({
        "org.opencontainers.image.title": "keyward",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.source": release.repository,
        "org.opencontainers.image.licenses": release.license,
    })
}

fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len() })
}
