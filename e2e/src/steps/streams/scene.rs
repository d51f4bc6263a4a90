//! A pod on the node, a proxy for the one user who may reach it, and what the API server says of both.

use std::{fmt, fs, path::Path};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::super::{proxy::Proxy, users};
use crate::{Outcome, audit, cluster::Cluster, node, tools};

/// How kubectl asks for a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    WebSocket,
    Spdy,
}

/// Both.
pub const WAYS: [Way; 2] = [Way::WebSocket, Way::Spdy];

impl Way {
    /// What the API server writes down about it: a WebSocket begins with GET, kubectl's SPDY with POST.
    pub fn asks(self) -> &'static str {
        match self {
            Self::WebSocket => "get 101",
            Self::Spdy => "create 101",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WebSocket => "websocket",
            Self::Spdy => "spdy",
        })
    }
}

/// The pod is the scene's own, so that what is written down about it is.
pub struct Scene<'a> {
    pub pod: String,
    cluster: &'a Cluster,
    proxy: Proxy,
}

impl<'a> Scene<'a> {
    /// With a pod of this name.
    pub async fn new(cluster: &'a Cluster, pod: &str) -> Outcome<Self> {
        let (object, status) = node::pod(pod);
        cluster.apply(&object).await?;
        let patch = ["patch", "pod", pod, "--namespace", node::NAMESPACE, "--subresource=status"];
        cluster.kubectl(&[&patch[..], &["--patch", &status.to_string()]].concat()).await?;
        let user = users::plugin(cluster, "token", "builder", 600)?.0;
        let name = format!("proxy-of-{pod}");
        let proxy = Proxy::start(cluster, &name, &cluster.kubeconfig(&user)?, &[]).await?;
        Ok(Self { pod: pod.to_owned(), cluster, proxy })
    }

    /// kubectl, through the proxy.
    pub fn kubectl(&self, way: Way, args: &[&str]) -> Command {
        self.other(way, &self.proxy.kubeconfig, args)
    }

    /// kubectl with another kubeconfig.
    pub fn other(&self, way: Way, kubeconfig: &Path, args: &[&str]) -> Command {
        let home = self.cluster.path(".");
        let mut command = tools::command(self.cluster.tools.kubernetes("kubectl"), &home);
        let websockets = if way == Way::WebSocket { "true" } else { "false" };
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.args(["--namespace", node::NAMESPACE]).args(args);
        command
    }

    /// A file in a directory of the scene's own.
    pub fn file(&self, name: &str) -> Outcome<String> {
        let folder = self.cluster.path(&self.pod);
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name).to_string_lossy().into_owned())
    }

    /// So many streams of this part went each way.
    pub async fn upgrades(&self, part: &str, each: usize) -> Outcome<String> {
        let expected: Vec<&str> = WAYS.into_iter().flat_map(|way| vec![way.asks(); each]).collect();
        self.asked(part, &expected).await?;
        Ok(format!("by WebSocket and by SPDY as {}", node::USER))
    }

    /// The API server has written down that our user asked for this part of the pod in just these
    /// ways, and the node that it was asked by nobody but the API server.
    pub async fn asked(&self, part: &str, expected: &[&str]) -> Outcome<()> {
        // Written when the connection is at its end, which may be after kubectl's, and after the
        // beginning of the next.
        let mut seen = self.audit(part)?;
        while seen.len() < expected.len() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            seen = self.audit(part)?;
        }
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        seen.sort_unstable();
        if seen != expected {
            return Err(format!("of {part} the API server wrote {seen:?}, not {expected:?}").into());
        }
        let records = self.cluster.node.kubelet.recorder().all();
        let named = |path: &str| path.split('/').any(|word| word == self.pod);
        let callers: Vec<_> = records
            .iter()
            .filter(|record| named(record.uri.path()))
            .map(|record| record.user.as_deref().unwrap_or("nobody"))
            .collect();
        if callers.len() < expected.len() || callers.iter().any(|user| *user != node::CALLER) {
            return Err(format!("the node was asked by {callers:?}").into());
        }
        Ok(())
    }

    /// Verb and status of what our user asked for; what others asked for was refused.
    fn audit(&self, part: &str) -> Outcome<Vec<String>> {
        let mut seen = Vec::new();
        for event in audit::events(&self.cluster.audit(), node::NAMESPACE)? {
            let object = &event["objectRef"];
            let ours = object["namespace"] == node::NAMESPACE
                && object["name"] == self.pod
                && object["subresource"] == part
                && event["stage"] == "ResponseComplete";
            if !ours {
                continue;
            }
            let (user, code) = (&event["user"]["username"], &event["responseStatus"]["code"]);
            if user == node::USER {
                seen.push(format!("{} {code}", event["verb"].as_str().unwrap_or_default()));
            } else if code != 403 {
                return Err(format!("{user} was answered {code}").into());
            }
        }
        Ok(seen)
    }
}

/// What it prints, as it prints it.
pub fn lines(child: &mut Child) -> Outcome<Lines<BufReader<ChildStdout>>> {
    Ok(BufReader::new(child.stdout.take().ok_or("no stdout")?).lines())
}

/// The next line must be this; `None` for the end.
pub async fn next(
    lines: &mut Lines<BufReader<ChildStdout>>,
    expected: Option<&str>,
) -> Outcome<()> {
    let seen = lines.next_line().await?;
    if seen.as_deref() != expected {
        return Err(format!("{seen:?} came, not {expected:?}").into());
    }
    Ok(())
}
