//! Many requests at once, without a credential yet.

use futures_util::future::join_all;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count};
use crate::commands::demo::scene::{TOKEN, status};

const REQUESTS: usize = 1000;

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    let before = (scene.issuer.runs(TOKEN), scene.server.counts().connections);
    // Clients that share no credentials cannot share a run.
    let clients = scene.clients(TOKEN, if scene.breaks(Promise::Crowd) { 3 } else { 1 })?;
    let watch = Watch::start();
    let crowd = clients.iter().cycle().take(REQUESTS).map(|client| status(client, "/healthz"));
    let seen = join_all(crowd).await;
    let took = watch.millis();
    let good = seen.iter().filter(|status| matches!(status, Ok(200))).count();
    let runs = scene.issuer.runs(TOKEN) - before.0;
    let connections = scene.server.counts().connections - before.1;
    report.see(
        Promise::Crowd,
        good == REQUESTS && runs == 1,
        format!(
            "{good} of {REQUESTS} requests at once got a 200 within {took} ms, with {} on {connections} connections",
            count(runs, "plugin run"),
        ),
        json!({
            "requests": REQUESTS,
            "good": good,
            "milliseconds": took,
            "pluginRuns": runs,
            "connections": connections,
        }),
    )
}
