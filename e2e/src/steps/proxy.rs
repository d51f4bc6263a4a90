//! kubectl through `keyward proxy`: it knows nothing of the credential.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use keyward_testing::server::{Server as Stand, User};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use super::{rotation, same, users};
use crate::{Outcome, child::Server, cluster::Cluster, config, tools};

/// A proxy that runs, and the kubeconfig that it wrote for clients.
pub struct Proxy {
    /// The clients'.
    pub kubeconfig: PathBuf,
    _server: Server,
}

impl Proxy {
    /// Starts one for this kubeconfig, with these variables.
    pub async fn start(
        cluster: &Cluster,
        name: &str,
        kubeconfig: &Path,
        env: &[(&str, PathBuf)],
    ) -> Outcome<Self> {
        let file = cluster.path(&format!("{name}.conf"));
        let mut command = Command::new(cluster.tools.own("keyward"));
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("proxy")
            .arg("--write-kubeconfig")
            .arg(&file);
        command.env("HOME", cluster.path(".")).env_remove("KUBECONFIG");
        command.envs(env.iter().map(|(name, value)| (name, value)));
        let mut server = Server::start(name, &command, &cluster.path("."))?;
        while !file.exists() {
            server.alive()?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Self { kubeconfig: file, _server: server })
    }
}

pub async fn user(cluster: &Cluster) -> Outcome<String> {
    let mut seen = Vec::new();
    for (kind, account) in [("token", "builder"), ("certificate", "celia")] {
        let direct = cluster.kubeconfig(&users::plugin(cluster, kind, account, 600)?.0)?;
        let proxy = Proxy::start(cluster, &format!("proxy-{kind}"), &direct, &[]).await?;
        let through = same::user(cluster, &proxy.kubeconfig, &[]).await?;
        if through != same::user(cluster, &direct, &[]).await? {
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
        "through",
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
    while rotation::count(&runs) < 4 {
        round += 1;
        let word = format!("round-{round}");
        let file = config::write(&cluster.path("."), &object(&word).to_string())?;
        kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
        let seen =
            kubectl(&["get", "configmap", "through", "-o", "jsonpath={.data.round}"]).await?;
        let watched = lines.next_line().await?;
        if seen != word || watched.as_ref() != Some(&word) {
            return Err(format!("`{word}` was written, `{seen}` read, {watched:?} watched").into());
        }
    }
    kubectl(&["delete", "configmap", "through"]).await?;
    watch.kill().await?;
    Ok(format!(
        "{round} rounds of apply, get and one watch; {} credentials",
        rotation::count(&runs)
    ))
}

/// A cluster without a kubelet has no running pods, so these are judged on the testing server, which
/// speaks both protocols.
pub async fn streams(cluster: &Cluster) -> Outcome<String> {
    let stand = Stand::setup().commands().start()?;
    stand.users().token("token-of-anna", User::new("anna"));
    stand.store().put(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "containers": [{ "name": "app", "image": "registry.example/app" }] },
        "status": { "phase": "Running" },
    }))?;
    let plugin = keyward_testing::script::Script::new();
    plugin.answer(Some("token-of-anna"), None);
    let direct = config::write(&cluster.path("."), &stand.kubeconfig(&plugin.user()))?;
    let proxy = Proxy::start(cluster, "proxy-streams", &direct, &[]).await?;
    stand.logs().write("default", "web", "a line of the log");
    stand.logs().end("default", "web");
    stand.ports().map(80, echo().await?);
    let kubectl = |websockets: &str, args: &[&str]| {
        let mut command = tools::command(cluster.tools.kubernetes("kubectl"), &cluster.path("."));
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        command.arg("--kubeconfig").arg(&proxy.kubeconfig).args(args);
        command
    };
    let log = tools::succeed(&mut kubectl("true", &["logs", "web"])).await?;
    if log != "a line of the log\n" {
        return Err(format!("the log is {log:?}").into());
    }
    for websockets in ["true", "false"] {
        let args = ["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"];
        let ran = tools::run(&mut kubectl(websockets, &args)).await?;
        if (ran.status.code(), ran.stdout.as_str()) != (Some(7), "out\n")
            || !ran.stderr.contains("err\n")
        {
            return Err(format!("exec: {}, {}{}", ran.status, ran.stdout, ran.stderr).into());
        }
        let mut command = kubectl(websockets, &["port-forward", "pod/web", ":80"]);
        let mut forward = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(forward.stdout.take().ok_or("no stdout")?).lines();
        let line = lines.next_line().await?.unwrap_or_default();
        let port =
            line.split(':').nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).await?;
        let mut answer = [0; 5];
        stream.write_all(b"hello").await?;
        stream.read_exact(&mut answer).await?;
        forward.kill().await?;
        if &answer != b"hello" {
            return Err(format!("the port answered {answer:?}").into());
        }
    }
    // As whom, and by which protocol: the first pair by WebSocket, the second by SPDY.
    let records = stand.recorder().all();
    let seen: Vec<String> = records
        .iter()
        .filter(|record| record.header("upgrade").is_some())
        .map(|record| {
            format!(
                "{} as {}",
                record.header("upgrade").unwrap_or_default(),
                record.user.as_deref().unwrap_or("nobody")
            )
        })
        .collect();
    let expected =
        ["websocket as anna", "websocket as anna", "SPDY/3.1 as anna", "SPDY/3.1 as anna"];
    if seen != expected {
        return Err(format!("the server saw {seen:?}").into());
    }
    Ok("log, and exec and port-forward by WebSocket and by SPDY, as anna".to_owned())
}

/// A server that says what it is told.
async fn echo() -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    Ok(address)
}

fn object(round: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "through", "namespace": "default" },
        "data": { "round": round },
    })
}
