//! Helm 3 and 4: a small chart, installed and removed again and again.

use std::{fs, path::Path, time::Instant};

use crate::{Outcome, cluster::Cluster, tools};

/// The two major versions.
pub const VERSIONS: [&str; 2] = ["helm3", "helm4"];

/// Installs, lists and removes a chart with each helm in turn until then. How many charts were installed.
pub async fn installs(
    cluster: &Cluster,
    kind: &str,
    kubeconfig: &Path,
    until: Instant,
) -> Outcome<usize> {
    let chart = chart(cluster, kind)?;
    let chart = chart.to_string_lossy();
    let mut installs = 0;
    while Instant::now() < until {
        for version in VERSIONS {
            let release = format!("{kind}-{version}");
            let helm = async |args: &[&str]| run(cluster, version, kubeconfig, args).await;
            helm(&["install", &release, &chart, "--namespace", "default"]).await?;
            let list = helm(&["list", "--namespace", "default", "--short"]).await?;
            if !list.lines().any(|line| line == release) {
                return Err(format!("{version} does not list its release: {list:?}").into());
            }
            helm(&["uninstall", &release, "--namespace", "default"]).await?;
            installs += 1;
        }
    }
    Ok(installs)
}

/// Runs one of the helms; it must succeed.
pub async fn run(
    cluster: &Cluster,
    version: &str,
    kubeconfig: &Path,
    args: &[&str],
) -> Outcome<String> {
    let mut command = tools::command(cluster.tools.program(version, "helm"), &cluster.path("."));
    tools::succeed(command.arg("--kubeconfig").arg(kubeconfig).args(args)).await
}

/// A chart with one config map.
fn chart(cluster: &Cluster, kind: &str) -> Outcome<std::path::PathBuf> {
    let chart = cluster.path(&format!("chart-{kind}"));
    fs::create_dir_all(chart.join("templates"))?;
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: small\nversion: 1.0.0\n")?;
    fs::write(
        chart.join("templates/map.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n",
    )?;
    Ok(chart)
}
