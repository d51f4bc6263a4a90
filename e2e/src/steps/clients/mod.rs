//! Clients in other languages, helm and k9s: through the proxy, and with `keyward credential` as their plugin.

mod clusters;
pub mod helm;
mod k9s;
mod load;
mod program;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::future::{join_all, try_join_all};
use tokio::process::Command;

use self::{
    load::Load,
    program::{ALL, Program, Running},
};
use super::{proxy::Proxy, rotation, users};
use crate::{Outcome, cluster::Cluster, config, node, tools};

pub use self::{clusters::different, k9s::shows};

/// How long clients work while credentials rotate.
const TIME: Duration = Duration::from_secs(60);
/// How many credentials have to be used up meanwhile.
const CREDENTIALS: usize = 8;
/// What a plugin says its tokens live, in seconds.
const TOKEN: u32 = 5;
/// What a plugin says its certificates live, in seconds; one run of it takes a second or two.
const CERTIFICATE: u32 = 8;

/// One token in three is revoked before its first use.
pub async fn tokens(cluster: &Cluster) -> Outcome<String> {
    let (user, runs) = users::plugin(cluster, "revocable", "builder", TOKEN)?;
    through_proxy(cluster, "tokens", &cluster.kubeconfig(&user)?, &runs).await
}

pub async fn certificates(cluster: &Cluster) -> Outcome<String> {
    let (user, runs) = users::plugin(cluster, "certificate", "celia", CERTIFICATE)?;
    through_proxy(cluster, "certificates", &cluster.kubeconfig(&user)?, &runs).await
}

/// All clients at once, each with a watch and reads, and helm installing a chart again and again.
async fn through_proxy(
    cluster: &Cluster,
    kind: &str,
    kubeconfig: &Path,
    runs: &Path,
) -> Outcome<String> {
    let proxy = Proxy::start(cluster, &format!("clients-{kind}"), kubeconfig, &[]).await?;
    let load = Load::new(cluster, &format!("clients-{kind}")).await?;
    let mut clients = work(cluster, &proxy.kubeconfig, &load.selector())?;
    try_join_all(clients.iter_mut().map(|client| client.ready("ready"))).await?;
    let seen = format!("event ADDED {}", load.first());
    for (name, program) in kubectls(cluster) {
        let mut command = watch(cluster, &program, &proxy.kubeconfig, &load.selector());
        let mut kubectl = Running::start(name, &mut command)?;
        kubectl.ready(&seen).await?;
        clients.push(kubectl);
    }
    let until = Instant::now() + TIME;
    let (events, charts, gets) = tokio::try_join!(
        load.run(TIME),
        helm::installs(cluster, kind, &proxy.kubeconfig, until),
        kubectl_reads(cluster, &proxy.kubeconfig, until),
    )?;
    let clients_count = clients.len();
    let outcomes = join_all(clients.into_iter().map(|client| client.finish(&events))).await;
    let mut total = 0;
    for outcome in outcomes {
        total += outcome?;
    }
    let used = rotation::count(runs);
    if used < CREDENTIALS {
        return Err(format!("only {used} credentials in {} s", TIME.as_secs()).into());
    }
    Ok(format!(
        "{} events, each once and in order, by {clients_count} clients; {} reads, {charts} charts installed, {used} credentials",
        events.len(),
        total + gets,
    ))
}

/// Every client but Ruby's, which cannot, runs a command in a pod.
pub async fn exec(cluster: &Cluster) -> Outcome<String> {
    let pod = "clients-exec";
    let (object, status) = node::pod(pod);
    cluster.apply(&object).await?;
    let patch = ["patch", "pod", pod, "--namespace", node::NAMESPACE, "--subresource=status"];
    cluster.kubectl(&[&patch[..], &["--patch", &status.to_string()]].concat()).await?;
    let user = users::plugin(cluster, "token", "builder", 600)?.0;
    let proxy = Proxy::start(cluster, "clients-exec", &cluster.kubeconfig(&user)?, &[]).await?;
    let mut done = Vec::new();
    for program in ALL.into_iter().filter(|program| program.has_exec()) {
        let mut command = program.command(cluster, "exec", &proxy.kubeconfig, node::NAMESPACE, pod);
        let said = tools::succeed(&mut command).await?;
        if said != "from the pod\n" {
            return Err(format!("{} read {said:?}", program.name()).into());
        }
        done.push(program.name());
    }
    Ok(done.join(", "))
}

/// The exec stanza of the clients' kubeconfig runs `keyward credential`, and tokens end every few seconds.
pub async fn chain(cluster: &Cluster) -> Outcome<String> {
    let (inner, runs) = users::plugin(cluster, "token", "builder", TOKEN)?;
    let inner = cluster.kubeconfig(&inner)?;
    // Ruby's client does not tell its plugin which version it wants.
    let inner = inner.to_string_lossy();
    let args = ["credential", "--kubeconfig", &inner, "--api-version", "v1beta1"];
    let outer = config::exec("v1beta1", &cluster.tools.own("keyward"), &args, &[]);
    let outer = cluster.kubeconfig(&outer)?;
    let load = Load::new(cluster, "clients-chain").await?;
    let mut clients = work(cluster, &outer, &load.selector())?;
    try_join_all(clients.iter_mut().map(|client| client.ready("ready"))).await?;
    let events = load.run(TIME / 4).await?;
    let outcomes = join_all(clients.into_iter().map(|client| client.finish(&events))).await;
    let mut total = 0;
    for outcome in outcomes {
        total += outcome?;
    }
    Ok(format!("{} events, {total} reads, {} runs", events.len(), rotation::count(&runs)))
}

fn work(cluster: &Cluster, kubeconfig: &Path, selector: &str) -> Outcome<Vec<Running>> {
    let start = |program: Program| {
        let mut command = program.command(cluster, "work", kubeconfig, "default", selector);
        Running::start(program.name(), &mut command)
    };
    ALL.into_iter().map(start).collect()
}

/// The two kubectls, of different ages.
fn kubectls(cluster: &Cluster) -> [(&'static str, std::path::PathBuf); 2] {
    [
        ("kubectl", cluster.tools.kubernetes("kubectl")),
        ("older kubectl", cluster.tools.program("kubectl-old", "kubectl-old")),
    ]
}

/// A kubectl that watches until its stdin ends.
fn watch(cluster: &Cluster, kubectl: &Path, kubeconfig: &Path, selector: &str) -> Command {
    const SCRIPT: &str =
        r#""$@" & watch=$!; cat >/dev/null; kill "$watch"; wait "$watch" 2>/dev/null; exit 0"#;
    let mut command = tools::command("sh", &cluster.path("."));
    command.args(["-c", SCRIPT, "sh"]).arg(kubectl).arg("--kubeconfig").arg(kubeconfig);
    command.args(["get", "configmaps", "--namespace", "default", "--selector", selector]);
    command.args(["--watch", "--output-watch-events", "-o"]);
    command.arg("jsonpath=event {.type} {.object.metadata.name}{\"\\n\"}");
    command
}

/// Both kubectls read in turns. How often.
async fn kubectl_reads(cluster: &Cluster, kubeconfig: &Path, until: Instant) -> Outcome<usize> {
    let mut reads = 0;
    while Instant::now() < until {
        for (_, kubectl) in kubectls(cluster) {
            let mut command = tools::command(kubectl, &cluster.path("."));
            command.arg("--kubeconfig").arg(kubeconfig);
            command.args(["get", "configmap", "steady", "--namespace", "default"]);
            tools::succeed(&mut command).await?;
            reads += 1;
        }
    }
    Ok(reads)
}
