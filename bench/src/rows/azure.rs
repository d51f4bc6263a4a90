//! `keyward-entra` beside Azure's kubelogin.

use std::{os::unix::process::CommandExt as _, path::Path, process::Command};

use super::{
    providers::{METADATA, judge, providers},
    startup::starts,
};
use crate::measure::{Bar, Row, Variant};

const BARE: &str = "/bin/true";
const KUBELOGIN: &str = "kubelogin of Azure (Go)";
const ENTRA: &str = "ours: keyward-entra";

/// A token of a managed identity in App Service, whose endpoint is the only one that kubelogin takes from a variable.
pub fn entra() -> Row {
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: BARE, run: Box::new(|| starts(40, &mut Command::new(BARE))) },
            Variant {
                label: KUBELOGIN,
                run: Box::new(|| starts(20, &mut with_identity(&judge("azure-kubelogin"))?)),
            },
            Variant {
                label: ENTRA,
                run: Box::new(|| starts(20, with_identity(&providers())?.arg0("keyward-entra"))),
            },
        ],
        bars: vec![Bar {
            promise: "a token of Entra ID takes no longer than with kubelogin",
            judge: |r| (r.ratio(ENTRA, KUBELOGIN), 1.0),
        }],
    }
}

/// A command with a managed identity and nothing else in its environment.
fn with_identity(program: &Path) -> Result<Command, String> {
    let metadata = METADATA.as_ref().map_err(Clone::clone)?;
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent");
    command.env("KEYWARD_AGENT", "off").env("IDENTITY_HEADER", "bench");
    command.env("IDENTITY_ENDPOINT", format!("{}/msi/token", metadata.url()));
    command.args(["get-token", "--login", "msi", "--server-id", "bench"]);
    Ok(command)
}
