//! Many kubectl at once, and no agent: one run, one agent, and all of them get in.

use std::{
    error::Error,
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use serde_json::json;

use super::scene::{PLUGIN, Scene, VERSION};
use crate::verdict::Verdict;

pub(super) fn soak(
    kubectls: usize,
    rounds: usize,
) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let (scene, server) = (Scene::new(PLUGIN)?, Server::setup().start()?);
    server.users().token("t0ken", User::new("ann"));
    let user = json!({ "exec": {
        "apiVersion": VERSION,
        "command": scene.path("bin/keyward-exec"),
        "args": ["--", "sh", scene.path("plugin/plugin")],
        "interactiveMode": "Never",
    }});
    fs::write(scene.kubeconfig(), server.kubeconfig(&user))?;
    scene.register(&server.url(), Vec::new())?;
    let program = &kubectl::installed().path;
    let (mut wrong, mut slowest) = (Vec::new(), Duration::ZERO);
    for round in 0..rounds {
        scene.begin_anew()?;
        let begun = Instant::now();
        let start = |_| {
            let mut command = scene.command(program);
            command.arg("--kubeconfig").arg(scene.kubeconfig());
            command.args(["get", "--raw", "/healthz"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        };
        let children: Vec<_> = (0..kubectls).map(start).collect();
        for child in children {
            let output = child?.wait_with_output()?;
            if output.stdout != b"ok" {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                wrong.push(format!("round {round}: {said}"));
            }
        }
        slowest = slowest.max(begun.elapsed());
        let (runs, agents) = (scene.runs(), scene.agents().len());
        if (runs, agents) != (1, 1) {
            let by = scene.runners().lines().collect::<Vec<_>>().join(", ");
            wrong.push(format!("round {round}: {agents} agents, {runs} runs by {by}"));
        }
    }
    let first = wrong.first().map(|first| format!(", the first: {first}")).unwrap_or_default();
    Ok(Verdict {
        name: "crowd",
        holds: wrong.is_empty() && rounds > 0,
        seen: format!(
            "{rounds} rounds of {kubectls} kubectl without an agent: 1 run, 1 agent, all answered, \
             the slowest round {:.1} s; {} wrong{first}",
            slowest.as_secs_f64(),
            wrong.len()
        ),
    })
}
