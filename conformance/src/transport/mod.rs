//! The judge of connections: kubectl and `keyward get` with the same kubeconfig against one Go server, over a matrix of
//! certificates, keys, authorities, versions of TLS, URLs, proxies, redirects and compression.
//!
//! Compared are whether the program succeeded, the bytes on stdout when it did, every request that the server saw (method,
//! target, host, headers, server name, version of TLS, client certificate) and whether a proxy was asked.

mod cases;
mod departures;
mod pki;
mod server;

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use self::{
    cases::{Setting, Stage, all},
    server::Server,
};
use crate::{kubectl::Judge, obstacle::Obstacle, trial::Row};

/// Headers that say what a client is and what it can read, and nothing of who asks.
const MANNERS: &[&str] =
    &["Accept", "Accept-Encoding", "User-Agent", "Kubectl-Command", "Kubectl-Session"];

/// What a run left behind.
#[derive(Debug, Clone, PartialEq)]
struct Trace {
    succeeded: bool,
    stdout: String,
    requests: Vec<Value>,
    /// Whether each proxy was asked.
    proxies: [bool; 4],
}

/// Runs both programs on every `stride`th case.
pub(crate) fn run(root: &Path, judge: &Judge, stride: usize) -> Result<Row, Obstacle> {
    let stage = Stage::new(Server::start(root)?)?;
    let mut row = Row::default();
    for case in all(judge.knows_hybrid()).iter().step_by(stride) {
        let setting = (case.make)(&stage).map_err(|e| format!("{}: {e}", case.name))?;
        let [theirs, ours] = judge.programs().map(|program| trace(program, &stage, &setting));
        let (theirs, ours) = (theirs?, ours?);
        if theirs.0 == ours.0 {
            row.pass(&[]);
        } else if let Some(reason) = departures::explains(&case.name, &theirs.0, &ours.0) {
            row.pass(&[reason]);
        } else {
            row.failed += 1;
            println!("\ntransport: {}", case.name);
            for (program, (trace, errors)) in [("kubectl", &theirs), ("keyward", &ours)] {
                println!("  {program}: {trace:?}\n    {}", errors.trim().replace('\n', "\n    "));
            }
        }
    }
    Ok(row)
}

/// Runs one program; what it said on stderr beside what is compared.
fn trace(program: &Path, stage: &Stage, setting: &Setting) -> Result<(Trace, String), String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).map_err(|e| e.to_string())
    };
    for (name, text) in &setting.files {
        write(name, text)?;
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
        "clusters": [{ "name": "x", "cluster": setting.cluster }],
        "users": [{ "name": "x", "user": setting.user }],
    });
    write("config", &config.to_string())?;
    stage.server.seen()?;
    let proxies = [&stage.http, &stage.https, &stage.socks, &stage.locked];
    let before = proxies.map(keyward_testing::proxy::Proxy::connections);
    let output = Command::new("timeout")
        .args(["60", "env", "-i", "HOME=/nonexistent", "PATH=/usr/bin:/bin"])
        .args(&setting.variables)
        .arg(program)
        .arg("--kubeconfig")
        .arg(directory.path().join("config"))
        .args(["get", "--raw", &setting.path])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start `{}`: {e}", program.display()))?;
    let succeeded = output.status.success();
    let mut requests = stage.server.seen()?;
    for request in &mut requests {
        if let Some(headers) = request["headers"].as_object_mut() {
            headers.retain(|name, _| !MANNERS.contains(&name.as_str()));
        }
        // Which of the groups that both know is the client's choice; `exchanges` has servers with one.
        request["curve"].take();
    }
    let after = proxies.map(keyward_testing::proxy::Proxy::connections);
    let trace = Trace {
        succeeded,
        stdout: if succeeded {
            String::from_utf8_lossy(&output.stdout).into_owned()
        } else {
            String::new()
        },
        requests,
        proxies: std::array::from_fn(|at| after[at] > before[at]),
    };
    Ok((trace, String::from_utf8_lossy(&output.stderr).into_owned()))
}
