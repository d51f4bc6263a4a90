//! `keyward-gke` and `keyward-gar` beside the tools that they replace, with one stand-in for the metadata server.

use std::{
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    providers::{METADATA, STARTS, fed, judge, providers},
    startup::starts,
};
use crate::measure::{Bar, Row, Variant};

const BARE: &str = "/bin/true";
const PLUGIN: &str = "gke-gcloud-auth-plugin (Go)";
const GKE: &str = "ours: keyward-gke";
const HELPER: &str = "docker-credential-gcr (Go)";
const GAR: &str = "ours: keyward-gar";

/// A token for a GKE cluster from the metadata server.
pub fn gke() -> Row {
    const FLAG: &str = "--use_application_default_credentials";
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: BARE, run: Box::new(|| starts(40, &mut Command::new(BARE))) },
            Variant {
                label: PLUGIN,
                run: Box::new(|| {
                    starts(STARTS, with_metadata(Path::new("gke-gcloud-auth-plugin"))?.arg(FLAG))
                }),
            },
            Variant {
                label: GKE,
                run: Box::new(|| {
                    let mut command = with_metadata(&providers())?;
                    starts(STARTS, command.arg0("keyward-gke").arg(FLAG))
                }),
            },
        ],
        bars: vec![Bar {
            promise: "a GKE token takes no longer than with the plugin in Go",
            judge: |r| (r.ratio(GKE, PLUGIN), 1.0),
        }],
    }
}

/// A login for docker from the metadata server.
pub fn gar() -> Row {
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: BARE, run: Box::new(|| starts(40, &mut Command::new(BARE))) },
            Variant {
                label: HELPER,
                run: Box::new(|| {
                    let helper = judge("docker-credential-gcr");
                    fed(with_metadata(&helper)?.arg("get"), "gcr.io")
                }),
            },
            Variant {
                label: GAR,
                run: Box::new(|| {
                    let mut command = with_metadata(&providers())?;
                    fed(command.arg0("docker-credential-gcr").arg("get"), "gcr.io")
                }),
            },
        ],
        bars: vec![Bar {
            promise: "a login for Artifact Registry takes no longer than with the helper in Go",
            judge: |r| (r.ratio(GAR, HELPER), 1.0),
        }],
    }
}

/// A command with the metadata server and nothing else in its environment.
fn with_metadata(program: &Path) -> Result<Command, String> {
    let metadata = METADATA.as_ref().map_err(Clone::clone)?;
    let mut command = Command::new(PathBuf::from(program));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command.env("KEYWARD_AGENT", "off").env("GCE_METADATA_HOST", metadata.address().to_string());
    Ok(command)
}
