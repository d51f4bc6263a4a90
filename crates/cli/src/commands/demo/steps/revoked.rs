//! A token that the server has revoked.

use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count};
use crate::commands::demo::scene::{TOKEN, status};

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    let client = scene.client(TOKEN)?;
    let first = status(&client, "/healthz").await?;
    let before = (scene.issuer.runs(TOKEN), scene.server.counts().status(401));
    let revoked = scene.issuer.revoke(TOKEN);
    if scene.breaks(Promise::Revoked) {
        scene.issuer.repeat(TOKEN);
    }
    let watch = Watch::start();
    let seen = status(&client, "/healthz").await?;
    let took = watch.millis();
    let runs = scene.issuer.runs(TOKEN) - before.0;
    let refusals = scene.server.counts().status(401) - before.1;
    report.see(
        Promise::Revoked,
        first == 200 && revoked > 0 && seen == 200 && refusals == 1 && runs == 1,
        format!(
            "the server revoked the token and rejected it {refusals} time: after {} the caller got a {seen}, in {took} ms",
            count(runs, "more plugin run"),
        ),
        json!({
            "refusals": refusals,
            "pluginRuns": runs,
            "status": seen,
            "milliseconds": took,
        }),
    )
}
