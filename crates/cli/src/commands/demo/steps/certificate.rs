//! A new certificate while a watch is open under the old one.

use std::time::Duration;

use http_body_util::BodyExt;
use keyward::{Client, Incoming};
use keyward_demo::issuer::Manner;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, pause, rounded};
use crate::{
    commands::demo::scene::{CERTIFICATE, LONG, whoami},
    server,
};

const LIFETIME: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(8);
/// Requests after the rotation, each checked for its certificate.
const AFTER: usize = 20;
const PATH: &str = "/api/v1/namespaces/default/configmaps?watch=true";

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    scene.issuer.answer(CERTIFICATE, Manner::Certificate(LIFETIME));
    let client = scene.client(CERTIFICATE)?;
    let mut events = open(&client).await?;
    scene.config_maps.put("before-the-rotation");
    read(&mut events, "before-the-rotation").await?;
    let old = whoami(&client).await?;

    let watch = Watch::start();
    let mut new = old.clone();
    while new["serial"] == old["serial"] && watch.time() < LIMIT {
        pause().await;
        new = whoami(&client).await?;
    }
    let rotated = watch.seconds();
    scene.issuer.answer(CERTIFICATE, Manner::Certificate(LONG));
    if scene.breaks(Promise::Watch) {
        scene.server.cut_connections();
        while scene.server.counts().open > 0 {
            pause().await;
        }
    }
    scene.config_maps.put("after-the-rotation");
    let alive = read(&mut events, "after-the-rotation").await;
    let events = 1 + usize::from(alive.is_ok());
    report.see(
        Promise::Watch,
        new["serial"] != old["serial"] && alive.is_ok(),
        match &alive {
            Ok(()) => format!(
                "certificate {} was replaced by {} after {rotated:.1} s; the watch opened with the old one received {events} of 2 events",
                old["serial"], new["serial"],
            ),
            Err(failure) => format!("the watch received {events} of 2 events: {}", failure.message()),
        },
        json!({ "old": old["serial"], "new": new["serial"], "seconds": rounded(rotated), "events": events }),
    )?;

    scene.server.recorder().clear();
    let stale =
        if scene.breaks(Promise::Identity) { Some(scene.client(CERTIFICATE)?) } else { None };
    for turn in 0..AFTER {
        // A separate client has its own certificate.
        whoami(stale.as_ref().filter(|_| turn % 2 == 1).unwrap_or(&client)).await?;
    }
    let records = scene.server.recorder().of("/whoami");
    let fresh = records.iter().filter(|record| json!(record.serial) == new["serial"]).count();
    let on_old = records.iter().filter(|r| json!(r.connection) == old["connection"]).count();
    report.see(
        Promise::Identity,
        new["serial"] != old["serial"] && fresh == AFTER && on_old == 0,
        format!(
            "{fresh} of {AFTER} later requests used certificate {}, {on_old} on the watch's connection",
            new["serial"],
        ),
        json!({ "requests": AFTER, "fresh": fresh, "onOldConnection": on_old }),
    )
}

async fn open(client: &Client) -> Result<Incoming, Failure> {
    let response = client.get(PATH).await?;
    if response.status().is_success() {
        Ok(response.into_body())
    } else {
        Err(server::refused(response).await)
    }
}

/// Waits for the event about this object.
async fn read(events: &mut Incoming, name: &str) -> Result<(), Failure> {
    let mut seen = Vec::new();
    while let Some(frame) = events.frame().await {
        let frame = frame.map_err(|error| server::lost(&*error))?;
        seen.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
        if String::from_utf8_lossy(&seen).contains(name) {
            return Ok(());
        }
    }
    Err(Failure::failed("the watch ended"))
}
