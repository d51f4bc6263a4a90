//! kubectl through `keyward proxy`: it knows nothing of the credential.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{
    rotation,
    same::{self, Credential},
    users,
};
use crate::{Outcome, audit, child::Server, cluster::Cluster, config, node, tools};

/// A proxy that runs, and the kubeconfig that it wrote for clients.
pub struct Proxy {
    /// The clients'.
    pub kubeconfig: PathBuf,
    _server: Server,
}

impl Proxy {
    /// Starts one for the current context of this kubeconfig, with these variables.
    pub async fn start(
        cluster: &Cluster,
        name: &str,
        kubeconfig: &Path,
        env: &[(&str, PathBuf)],
    ) -> Outcome<Self> {
        Self::serve(cluster, name, kubeconfig, &[], env).await
    }

    /// Starts one with these arguments.
    pub async fn serve(
        cluster: &Cluster,
        name: &str,
        kubeconfig: &Path,
        args: &[&str],
        env: &[(&str, PathBuf)],
    ) -> Outcome<Self> {
        let file = cluster.path(&format!("{name}.conf"));
        let mut command = Command::new(cluster.tools.own("keyward"));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("proxy")
            .arg("--write-kubeconfig")
            .arg(&file)
            .args(args);
        command.env("HOME", cluster.path(".")).env_remove("KUBECONFIG");
        command.envs(env.iter().map(|(name, value)| (name, value)));
        let mut server = Server::start(name, &command, &cluster.path("."))?;
        while !file.exists() {
            server.alive()?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Else everything would go well without a proxy.
        let text = fs::read_to_string(&file)?;
        let told = [&cluster.address, "exec:", "auth-provider:"];
        if let Some(word) = told.into_iter().find(|word| text.contains(word)) {
            return Err(format!("the kubeconfig for clients has `{word}` in it").into());
        }
        Ok(Self { kubeconfig: file, _server: server })
    }
}

pub async fn user(cluster: &Cluster) -> Outcome<String> {
    let mut seen = Vec::new();
    for (kind, account) in [("token", "builder"), ("certificate", "celia")] {
        let direct = cluster.kubeconfig(&users::plugin(cluster, kind, account, 600)?.0)?;
        let proxy = Proxy::start(cluster, &format!("proxy-{kind}"), &direct, &[]).await?;
        let through = same::user(cluster, &proxy.kubeconfig, &[], Credential::One).await?;
        if through != same::user(cluster, &direct, &[], Credential::Each).await? {
            return Err(format!("through the proxy it is {through}").into());
        }
        seen.push(same::line(&through));
    }
    Ok(seen.join("; "))
}

/// Reads, writes and watches go on while the token changes every few seconds.
pub async fn work(cluster: &Cluster) -> Outcome<String> {
    let (user, runs) = users::plugin(cluster, "token", "builder", rotation::LIFETIME)?;
    let proxy = Proxy::start(cluster, "proxy-work", &cluster.kubeconfig(&user)?, &[]).await?;
    let kubectl = async |args: &[&str]| {
        let ran = cluster
            .theirs(&proxy.kubeconfig, &[args, &["--namespace", "default"]].concat())
            .await?;
        if ran.status.success() {
            Ok(ran.stdout)
        } else {
            Err(crate::Failure::from(format!("{args:?}: {}", ran.stderr)))
        }
    };
    let file = config::write(&cluster.path("."), &object("begin").to_string())?;
    kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;

    let mut command = tools::command(cluster.tools.kubernetes("kubectl"), &cluster.path("."));
    command.arg("--kubeconfig").arg(&proxy.kubeconfig).stdout(Stdio::piped());
    command.args([
        "get",
        "configmap",
        NAME,
        "--namespace",
        "default",
        "--watch",
        "-o",
        "jsonpath={.data.round}{\"\\n\"}",
    ]);
    let mut watch = command.spawn()?;
    let mut lines = BufReader::new(watch.stdout.take().ok_or("no stdout")?).lines();
    let mut round = 0;
    if lines.next_line().await?.as_deref() != Some("begin") {
        return Err("the watch does not begin with what is there".into());
    }
    while rotation::count(&runs) <= CREDENTIALS {
        round += 1;
        let word = format!("round-{round}");
        let file = config::write(&cluster.path("."), &object(&word).to_string())?;
        kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
        let seen = kubectl(&["get", "configmap", NAME, "-o", "jsonpath={.data.round}"]).await?;
        let watched = lines.next_line().await?;
        if seen != word || watched.as_ref() != Some(&word) {
            return Err(format!("`{word}` was written, `{seen}` read, {watched:?} watched").into());
        }
    }
    kubectl(&["delete", "configmap", NAME]).await?;
    let requests = audit::requests(&cluster.audit(), NAME)?;
    watch.kill().await?;

    // A plugin that runs is not yet a credential that is used.
    let wrong = requests.iter().find(|it| it.user != node::USER || it.code == 401);
    if let Some(it) = wrong {
        return Err(format!("{} of `{}` was answered {}", it.verb, it.user, it.code).into());
    }
    let credentials: BTreeSet<&str> = requests.iter().map(|it| &*it.credential).collect();
    let watches = requests.iter().filter(|it| it.verb == "watch").count();
    if credentials.len() < CREDENTIALS || watches != 1 {
        return Err(format!("{watches} watches, {} credentials", credentials.len()).into());
    }
    Ok(format!("{round} rounds of apply, get and one watch; {} credentials", credentials.len()))
}

/// What is worked on. Nobody else has a thing of this name.
const NAME: &str = "through-the-proxy";
/// How many credentials the server must have seen.
const CREDENTIALS: usize = 4;

fn object(round: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": NAME, "namespace": "default" },
        "data": { "round": round },
    })
}
