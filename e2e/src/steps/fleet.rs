//! The Helm chart: its objects, and what its `DaemonSet` does to a node.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use super::{clients::helm, pulls};
use crate::{
    Outcome,
    cluster::Cluster,
    config,
    tools::{self, Tools},
    worker::{self, PASSWORD, ProviderFlags, Worker},
};

const NAMESPACE: &str = "kube-system";
const RELEASE: &str = "keyward-node";
/// The Helm that installs; the other one only renders.
const HELM: &str = "helm4";

/// Every object that the chart can render, and the manifests that were rendered from it.
pub async fn objects(cluster: &Cluster) -> Outcome<String> {
    let crds = Tools::file("crds");
    cluster.kubectl(&["apply", "-f", &crds.to_string_lossy()]).await?;
    let established = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
    cluster.kubectl(&established).await?;
    let manifests = packaging("manifests");
    let values = manifests.join("values.yaml").to_string_lossy().into_owned();
    let mut count = 0;
    for version in helm::VERSIONS {
        for installed in ["installed=true", "installed=false"] {
            let rendered = render(cluster, version, &values, installed).await?;
            count += accepted(cluster, &rendered).await?;
        }
    }
    for name in ["keyward-node.yaml", "keyward-node-removal.yaml"] {
        count += accepted(cluster, &fs::read_to_string(manifests.join(name))?).await?;
    }
    // The schemas of the Prometheus operator's objects find mistakes.
    let rendered = render(cluster, HELM, &values, "installed=true").await?;
    for (right, wrong) in [("podMetricsEndpoints:", "endpoints:"), ("- alert:", "- alarm:")] {
        if accepted(cluster, &rendered.replace(right, wrong)).await.is_ok() {
            return Err(format!("`{wrong}` instead of `{right}` was accepted").into());
        }
    }
    Ok(format!("the API server accepts {count} objects"))
}

/// What the chart renders with these values, hooks among it.
async fn render(cluster: &Cluster, version: &str, values: &str, set: &str) -> Outcome<String> {
    let chart = packaging("chart/keyward-node");
    let args = ["template", RELEASE, &chart.to_string_lossy(), "--namespace", NAMESPACE];
    let args =
        [&args[..], &["--kube-version", "1.36.0", "--values", values, "--set", set]].concat();
    helm::run(cluster, version, &cluster.admin, &args).await
}

/// How many objects the API server would create or change.
async fn accepted(cluster: &Cluster, objects: &str) -> Outcome<usize> {
    let file = config::write(&cluster.path("."), objects)?;
    let file = file.to_string_lossy();
    let args = ["apply", "--dry-run=server", "--validate=strict", "-f", &file];
    Ok(cluster.kubectl(&args).await?.lines().count())
}

/// Installs the chart, upgrades it, tries a broken configuration, rolls back and uninstalls.
pub async fn lifecycle(cluster: &Cluster) -> Outcome<String> {
    let fleet = Fleet::prepare(cluster).await?;
    cluster.waits_for("the installation");
    fleet.helm(&["install", RELEASE, &chart(), "--values", &fleet.values("1", "5m")?]).await?;
    // The node's own service, which is us, restarts the kubelet: only then can it pull what the pod needs.
    let request = fleet.dir.join("restart-kubelet");
    cluster.waits_for("the request to restart the kubelet");
    exists(&request, true).await;
    fleet.worker.restart_kubelet(cluster, Some(flags(&request)?))?;
    fleet.rolled_out().await?;
    cluster.waits_for("a pull with what was installed");
    fleet.pulls("installed").await?;
    fleet.scraped().await?;

    cluster.waits_for("the upgrade");
    let (first, kubelet) = (fleet.current()?, fleet.worker.started());
    let asked = fs::metadata(&request)?.modified()?;
    fleet.upgrade(&fleet.values("2", "1m")?).await?;
    fleet.rolled_out().await?;
    let second = fleet.current()?;
    if second == first {
        return Err("the upgrade changed nothing on the node".into());
    }
    if fleet.worker.started() != kubelet || fs::metadata(&request)?.modified()? != asked {
        return Err("the upgrade asked for a restart of the kubelet".into());
    }
    fleet.pulls("upgraded").await?;

    cluster.waits_for("the installation of a broken configuration");
    fleet.upgrade(&fleet.broken_values()?).await?;
    let said = fleet.failed().await?;
    if fleet.rollout("3s").await.is_ok() {
        return Err("the rollout of a broken configuration is complete".into());
    }
    if fleet.current()? != second {
        return Err("a broken configuration changed the version in use".into());
    }
    fleet.pulls("broken").await?;

    cluster.waits_for("the rollback");
    fleet.helm(&["rollback", RELEASE, "1"]).await?;
    fleet.rolled_out().await?;
    if fleet.current()? != first {
        return Err(
            format!("after the rollback there is {:?}, not {first:?}", fleet.current()?).into()
        );
    }
    fleet.pulls("rolled-back").await?;

    cluster.waits_for("the removal");
    let ((), is_kept) = tokio::try_join!(fleet.uninstall(), async {
        exists(&request, false).await;
        // Only now may anything be removed: the kubelet could not start any more.
        let is_kept = fleet.dir.join("current/kubelet.yaml").exists();
        fleet.worker.restart_kubelet(cluster, None)?;
        Ok(is_kept)
    })?;
    if !is_kept {
        return Err("files were removed while the kubelet used them".into());
    }
    fleet.is_clean().await?;
    Ok(format!("{first}, {second}, {said}, {first}, nothing"))
}

/// A release of the chart, and the node that it installs on.
struct Fleet<'a> {
    cluster: &'a Cluster,
    worker: &'a Worker,
    dir: PathBuf,
    port: u16,
}

impl<'a> Fleet<'a> {
    /// Stores the images and starts the scheduler.
    async fn prepare(cluster: &'a Cluster) -> Outcome<Self> {
        cluster.waits_for("the images");
        let worker = cluster.worker().await?;
        let image = cluster.tools.image();
        if !image.is_file() {
            let image = image.display();
            return Err(format!("`{image}` is missing\nhint: cargo xtask e2e").into());
        }
        let image = format!("oci-archive:{}", image.display());
        // The kubelet can pull the first two from the beginning, the third only with what the chart installs.
        for name in ["docker/keyward:1", "docker/keyward:2", "fleet/keyward:1"] {
            worker.store(cluster, &image, name).await?;
        }
        worker.push(cluster, "fleet/app").await?;
        let logins = worker.path("fleet-logins");
        fs::create_dir(&logins)?;
        let login = worker.registries.docker_config(PASSWORD).to_string();
        config::private(&logins.join("docker.json"), &login)?;
        cluster.start_scheduler()?;
        let dir = worker.path("fleet");
        Ok(Self { cluster, worker, dir, port: worker::free_port()? })
    }

    /// A file with values: this tag, and a provider that differs by how long its logins may be cached.
    fn values(&self, tag: &str, cached: &str) -> Outcome<String> {
        self.values_with(tag, "keyward-provider-docker", cached)
    }

    /// A provider whose program does not exist.
    fn broken_values(&self) -> Outcome<String> {
        self.values_with("2", "keyward-provider-missing", "1m")
    }

    fn values_with(&self, tag: &str, provider: &str, cached: &str) -> Outcome<String> {
        let host = &self.worker.registries.passwords;
        let logins = self.worker.path("fleet-logins");
        let address = self.cluster.address.trim_start_matches("https://");
        let (api, port) = address.split_once(':').unwrap_or_default();
        let values = json!({
            "image": { "repository": format!("{host}/docker/keyward"), "tag": tag },
            "dir": self.dir,
            "providers": [{
                "name": provider,
                "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                "matchImages": [host],
                "defaultCacheDuration": "0s",
                "args": ["--config", logins.join("docker.json"), "--cache-for", cached],
            }],
            "kubelet": { "matchImages": [host], "requestRestart": true },
            "hostPaths": [logins],
            "test": {
                "images": [format!("{host}/fleet/app:1")],
                "pull": format!("{host}/fleet/keyward:1"),
                "periodSeconds": 10,
            },
            "metrics": { "port": self.port },
            "removal": { "apiServer": { "host": api, "port": port.parse::<u16>()? } },
            "nodeSelector": { "kubernetes.io/hostname": worker::NAME },
        });
        let file = config::write(&self.cluster.path("."), &values.to_string())?;
        Ok(file.to_string_lossy().into_owned())
    }

    async fn helm(&self, args: &[&str]) -> Outcome<String> {
        let args = [args, &["--namespace", NAMESPACE]].concat();
        helm::run(self.cluster, HELM, &self.cluster.admin, &args).await
    }

    async fn upgrade(&self, values: &str) -> Outcome<()> {
        self.helm(&["upgrade", RELEASE, &chart(), "--values", values]).await.map(drop)
    }

    async fn uninstall(&self) -> Outcome<()> {
        self.helm(&["uninstall", RELEASE, "--wait", "--timeout", "120s"]).await.map(drop)
    }

    /// Waits until the rollout is complete, but not longer than this.
    async fn rollout(&self, timeout: &str) -> Outcome<()> {
        let name = format!("daemonset/{RELEASE}");
        let timeout = format!("--timeout={timeout}");
        let args = ["rollout", "status", &name, "--namespace", NAMESPACE, &timeout];
        self.cluster.kubectl(&args).await.map(drop)
    }

    /// Waits until every pod is new and ready.
    async fn rolled_out(&self) -> Outcome<()> {
        let done = self.rollout("100s").await;
        done.map_err(|error| format!("{error}\n{}", self.logs()).into())
    }

    /// The version in use on the node.
    fn current(&self) -> Outcome<String> {
        let link = fs::read_link(self.dir.join("current"))?;
        Ok(link.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    /// A pod whose image needs a login starts.
    async fn pulls(&self, name: &str) -> Outcome<()> {
        let image = format!("{}/fleet/app:1", self.worker.registries.passwords);
        let pod = pulls::start(self.cluster, &format!("fleet-{name}"), &image, json!({})).await?;
        pulls::running(self.cluster, &pod).await?;
        pulls::end(self.cluster, &pod).await?;
        pulls::admitted(self.worker, "fleet/app")
    }

    /// The pod serves the node's metrics.
    async fn scraped(&self) -> Outcome<()> {
        let selector = format!("app.kubernetes.io/name={RELEASE}");
        let path = "jsonpath={.items[0].status.podIP}";
        let args = ["get", "pods", "--namespace", NAMESPACE, "--selector", &selector, "-o", path];
        let address = self.cluster.kubectl(&args).await?;
        let mut curl = tools::command("curl", &self.cluster.path("."));
        curl.args(["--silent", "--show-error", "--fail"]);
        curl.arg(format!("http://{}:{}/metrics", address.trim(), self.port));
        let text = tools::succeed(&mut curl).await?;
        for sample in [
            format!("keyward_node_installed_info{{version=\"{}\"}} 1", self.current()?),
            "keyward_node_kubelet_configured 1".to_owned(),
            "keyward_node_pulls_total{result=\"login\"}".to_owned(),
            "keyward_node_config_valid 1".to_owned(),
        ] {
            if !text.contains(&sample) {
                return Err(format!("no `{sample}` in {text}").into());
            }
        }
        Ok(())
    }

    /// Waits until an installation has failed; what it said.
    async fn failed(&self) -> Outcome<String> {
        loop {
            let logs = self.logs();
            let said = logs.lines().find(|line| line.contains("stays in use"));
            if let Some((_, said)) = said.and_then(|line| line.split_once("error: ")) {
                return Ok(said.to_owned());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What the pods' containers have said.
    fn logs(&self) -> String {
        let mut text = String::new();
        collect(&self.worker.path("pod-logs"), &mut text);
        text
    }

    /// Neither the node nor the cluster has anything left.
    async fn is_clean(&self) -> Outcome<()> {
        let left: Vec<_> = fs::read_dir(&self.dir)?.flatten().map(|entry| entry.path()).collect();
        if !left.is_empty() {
            return Err(format!("the node still has {left:?}").into());
        }
        let kinds =
            "daemonsets,jobs,configmaps,serviceaccounts,roles,rolebindings,secrets,clusterroles";
        let instance = format!("app.kubernetes.io/instance={RELEASE}");
        let args = ["get", kinds, "--namespace", NAMESPACE, "--selector", &instance, "-o", "name"];
        match self.cluster.kubectl(&args).await?.trim() {
            "" => Ok(()),
            left => Err(format!("the cluster still has {left}").into()),
        }
    }
}

fn chart() -> String {
    packaging("chart/keyward-node").to_string_lossy().into_owned()
}

/// A directory of the packages' sources.
fn packaging(name: &str) -> PathBuf {
    Tools::file("..").join("packaging").join(name)
}

/// Waits until the file exists, or does not. The step's own limit ends the wait.
async fn exists(path: &Path, wanted: bool) {
    while path.exists() != wanted {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The kubelet's flags in a request for its restart.
fn flags(request: &Path) -> Outcome<ProviderFlags> {
    let text = fs::read_to_string(request)?;
    let value = |name: &str| {
        let flag = format!("--image-credential-provider-{name}=");
        let found = text.lines().find_map(|line| line.strip_prefix(&flag)).map(PathBuf::from);
        found.ok_or_else(|| format!("no `{flag}` in {text}"))
    };
    Ok(ProviderFlags { config: value("config")?, bin_dir: value("bin-dir")? })
}

/// Reads the files of containers named `install` and the like, in directories of pods.
fn collect(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, text);
        } else if path.to_string_lossy().contains(RELEASE) {
            text.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}
