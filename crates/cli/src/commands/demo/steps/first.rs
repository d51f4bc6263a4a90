//! The server demands a credential, and accepts the plugin's.

use keyward_demo::server::{Deed, Fault};
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, count};
use crate::commands::demo::scene::{ANONYMOUS, TOKEN, status, whoami};

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    if scene.breaks(Promise::Door) {
        scene.server.users().open("/");
    }
    let seen = status(&scene.client(ANONYMOUS)?, "/healthz").await?;
    report.see(
        Promise::Door,
        seen == 401,
        format!("a request without a credential gets a {seen}"),
        json!({ "status": seen }),
    )?;

    if scene.breaks(Promise::First) {
        let answer = Deed::Answer(http::StatusCode::INTERNAL_SERVER_ERROR);
        scene.server.faults().add(Fault::always(answer));
    }
    let before = scene.issuer.runs(TOKEN);
    let client = scene.client(TOKEN)?;
    let watch = Watch::start();
    let who = whoami(&client).await?;
    let (took, runs) = (watch.millis(), scene.issuer.runs(TOKEN) - before);
    let name = who["username"].as_str().unwrap_or_default();
    report.see(
        Promise::First,
        name == TOKEN && who["proof"] == "token" && runs == 1,
        format!(
            "the first request was authenticated as `{name}` after {took} ms, {} included",
            count(runs, "plugin run"),
        ),
        json!({ "user": name, "milliseconds": took, "pluginRuns": runs }),
    )
}
