//! A handshake signed by another process, which holds the key.

use std::fs;

use futures_util::future::join_all;
use keyward_demo::authority::KeyKind;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count};
use crate::commands::demo::scene::{SIGNER, status, whoami};

/// Requests at once, without an open connection.
const CROWD: usize = 20;

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    if scene.breaks(Promise::Signer) {
        // Another user's key: its signature must not reach the server.
        let other = scene.server.authority().client("eve").key(KeyKind::Ed25519).issue();
        let other = other.map_err(|error| Failure::failed(error.to_string()))?;
        fs::write(scene.signer_file("key"), other.key_pem())?;
    }
    let client = scene.client(SIGNER)?;
    let watch = Watch::start();
    let statuses = join_all((0..CROWD).map(|_| status(&client, "/healthz"))).await;
    let good = statuses.into_iter().collect::<Result<Vec<_>, _>>()?;
    let good = good.into_iter().filter(|status| *status == 200).count();
    let took = watch.millis();
    let who = whoami(&client).await?;
    let log = fs::read_to_string(scene.signer_file("log")).unwrap_or_default();
    let asked = |kind: &str| log.lines().filter(|line| line.starts_with(kind)).count();
    let (certificates, signatures) = (asked("CertificateRequest"), asked("SignRequest"));
    let elsewhere = log
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .all(|pid| pid != std::process::id().to_string());
    let name = who["username"].as_str().unwrap_or_default();
    report.see(
        Promise::Signer,
        good == CROWD
            && name == SIGNER
            && who["proof"] == "certificate"
            && certificates == 1
            && signatures == 1
            && elsewhere,
        format!(
            "{good} of {CROWD} requests at once were authenticated as `{name}` after {took} ms, with {} made in another process",
            count(signatures, "signature"),
        ),
        json!({ "user": name, "requests": good, "signatures": signatures, "milliseconds": took }),
    )
}
