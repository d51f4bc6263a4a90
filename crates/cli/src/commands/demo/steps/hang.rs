//! A plugin that never answers.

use std::time::Duration;

use keyward_host::Kind;
use rustix::process::test_kill_process;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch, rounded, seen_within};
use crate::commands::demo::scene::{HANGING, settings};

const BUDGET: Duration = Duration::from_millis(1500);
const DEADLINE: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(5);
/// How long a process that was killed may take to end.
const END: Duration = Duration::from_secs(1);

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    let mut settings = settings();
    settings.unattended = if scene.breaks(Promise::Budget) { 10 * BUDGET } else { BUDGET };
    let client = scene.client_with(HANGING, settings)?;
    let watch = Watch::start();
    let deadline = if scene.breaks(Promise::Deadline) { LIMIT } else { DEADLINE };
    let gave_up = tokio::time::timeout(deadline, client.get("/healthz")).await.is_err();
    let freed = watch.millis();
    report.see(
        Promise::Deadline,
        gave_up && watch.time() < BUDGET,
        format!("a caller with a limit of {} ms returned after {freed} ms", DEADLINE.as_millis()),
        json!({ "deadline": DEADLINE.as_secs_f64() * 1e3, "milliseconds": freed }),
    )?;

    let waited = tokio::time::timeout(LIMIT, client.get("/healthz")).await;
    let seconds = watch.seconds();
    let timed_out = match &waited {
        Ok(Err(error)) => error.credential().is_some_and(|error| error.kind() == Kind::TimedOut),
        _ => false,
    };
    let process = scene.issuer.process(HANGING);
    let gone = match process {
        Some(process) => seen_within(END, async || Ok(test_kill_process(process).is_err())).await?,
        None => false,
    };
    report.see(
        Promise::Budget,
        timed_out && gone,
        format!(
            "the plugin's limit is {} s: {} after {seconds:.2} s, and its process is {}",
            BUDGET.as_secs_f64(),
            if timed_out { "the caller was told so" } else { "nobody was told" },
            if gone { "gone" } else { "still there" },
        ),
        json!({
            "limit": BUDGET.as_secs_f64(),
            "seconds": rounded(seconds),
            "told": timed_out,
            "gone": gone,
        }),
    )
}
