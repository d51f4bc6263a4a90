//! Tokens that expire soon.

use std::{collections::HashSet, time::Duration};

use keyward_demo::issuer::Manner;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count, pause, rounded};
use crate::commands::demo::scene::{LONG, TOKEN, status};

const LIFETIME: Duration = Duration::from_secs(2);
/// The first token, and two replacements.
const TOKENS: usize = 3;
const LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    scene.issuer.answer(TOKEN, Manner::Token(LIFETIME));
    scene.server.recorder().clear();
    let before = scene.issuer.runs(TOKEN);
    let client = scene.client(TOKEN)?;
    let watch = Watch::start();
    let (mut requests, mut bad) = (0_usize, 0_usize);
    let mut tokens = HashSet::new();
    while tokens.len() < TOKENS && watch.time() < LIMIT {
        // Rejected and failed requests count alike: the caller noticed.
        bad += usize::from(!matches!(status(&client, "/healthz").await, Ok(200)));
        requests += 1;
        let last = scene.server.recorder().last();
        tokens.extend(last.and_then(|last| last.header("authorization").map(str::to_owned)));
        if scene.breaks(Promise::Expiry) {
            scene.issuer.repeat(TOKEN);
        }
        pause().await;
    }
    let (seconds, runs, tokens) =
        (watch.seconds(), scene.issuer.runs(TOKEN) - before, tokens.len());
    scene.issuer.answer(TOKEN, Manner::Token(LONG));
    report.see(
        Promise::Expiry,
        tokens == TOKENS && bad == 0 && runs == TOKENS,
        format!(
            "tokens of {} s at most: the server saw {tokens} in {seconds:.1} s from {}; {requests} requests, {bad} not answered 200",
            LIFETIME.as_secs(),
            count(runs, "plugin run"),
        ),
        json!({
            "tokens": tokens,
            "pluginRuns": runs,
            "requests": requests,
            "bad": bad,
            "seconds": rounded(seconds),
        }),
    )
}
