//! A plugin that fails, and then recovers.

use std::time::Duration;

use futures_util::future::join_all;
use keyward_demo::issuer::Manner;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count, pause, rounded};
use crate::commands::demo::scene::{FAILING, LONG, status};

const REQUESTS: usize = 200;
const LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    scene.issuer.answer(FAILING, Manner::No);
    let before = scene.issuer.runs(FAILING);
    // Clients that share no credentials share no backoff.
    let clients = scene.clients(FAILING, if scene.breaks(Promise::Backoff) { 3 } else { 1 })?;
    let crowd = clients.iter().cycle().take(REQUESTS).map(|client| client.get("/healthz"));
    let failed = join_all(crowd).await.iter().filter(|answer| answer.is_err()).count();
    let watch = Watch::start();
    let runs = scene.issuer.runs(FAILING) - before;
    report.see(
        Promise::Backoff,
        failed == REQUESTS && runs == 1,
        format!(
            "the plugin fails: {failed} of {REQUESTS} requests got its error, after {}",
            count(runs, "plugin run"),
        ),
        json!({ "requests": REQUESTS, "failed": failed, "pluginRuns": runs }),
    )?;

    if !scene.breaks(Promise::Recovery) {
        scene.issuer.answer(FAILING, Manner::Token(LONG));
    }
    let mut tries = 0_usize;
    let mut recovered = false;
    while !recovered && watch.time() < LIMIT {
        recovered = matches!(status(&clients[0], "/healthz").await, Ok(200));
        tries += 1;
        pause().await;
    }
    let (seconds, more) = (watch.seconds(), scene.issuer.runs(FAILING) - before - runs);
    report.see(
        Promise::Recovery,
        recovered && more == 1,
        format!(
            "fixed, it ran again after {seconds:.2} s: {tries} more requests, {}, {}",
            count(more, "more plugin run"),
            if recovered { "then a 200" } else { "and no 200" },
        ),
        json!({
            "seconds": rounded(seconds),
            "requests": tries,
            "pluginRuns": more,
            "recovered": recovered,
        }),
    )
}
