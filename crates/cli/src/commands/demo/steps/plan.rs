//! Shows what would run, without running it.

use keyward_host::Method;
use serde_json::json;

use super::{Failure, Promise, Report, Scene, count};
use crate::commands::demo::scene::{TOKEN, sources};

pub(super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    let plan = scene.plan(TOKEN)?;
    let source = sources().open(&plan);
    if scene.breaks(Promise::Plan) {
        source.credential().await?;
    }
    let methods: Vec<_> = plan.methods().into_iter().map(Method::name).collect();
    let program = plan.plugin().and_then(|plugin| plugin.preview.program.as_ref());
    let program = program.map(|program| program.path.display().to_string()).unwrap_or_default();
    let (runs, connections) = (scene.issuer.all_runs(), scene.server.counts().connections);
    report.see(
        Promise::Plan,
        plan.plugin().is_some() && !program.is_empty() && runs == 0 && connections == 0,
        format!(
            "context `{TOKEN}` needs plugin `{program}`; {} and {connections} connections so far",
            count(runs, "plugin run"),
        ),
        json!({ "methods": methods, "pluginRuns": runs, "connections": connections }),
    )
}
