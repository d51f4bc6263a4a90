//! A handshake signed by a key that was generated in a token, if `SoftHSM` is installed.

use serde_json::json;

use super::{Failure, Promise, Report, Scene, Watch};
use crate::commands::demo::scene::{SOFTHSM, whoami};

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    let softhsm = match &scene.softhsm {
        Ok(softhsm) => softhsm,
        Err(missing) => return report.leave_out(Promise::Softhsm, missing),
    };
    let watch = Watch::start();
    tokio::task::block_in_place(|| softhsm.enrol(scene.server.authority()))?;
    if scene.breaks(Promise::Softhsm) {
        softhsm.forget_pin()?;
    }
    let made = watch.millis();
    let client = scene.client(SOFTHSM)?;
    let watch = Watch::start();
    let who = whoami(&client).await?;
    let took = watch.millis();
    let name = who["username"].as_str().unwrap_or_default();
    report.see(
        Promise::Softhsm,
        name == SOFTHSM && who["proof"] == "certificate",
        format!(
            "a key generated and certified in a SoftHSM token in {made} ms signed; the server authenticated `{name}` after {took} ms"
        ),
        json!({ "user": name, "milliseconds": took, "enrolment": made }),
    )
}
