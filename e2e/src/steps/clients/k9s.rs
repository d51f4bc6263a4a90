//! k9s on a terminal that nobody looks at, except this step.

use std::{path::PathBuf, time::Duration};

use super::super::{proxy::Proxy, rotation, users};
use crate::{Outcome, cluster::Cluster, tools};

/// Between two looks at the screen.
const PAUSE: Duration = Duration::from_millis(200);

/// k9s lists config maps through the proxy, also those made while tokens rotate.
pub async fn shows(cluster: &Cluster) -> Outcome<String> {
    let (user, runs) = users::plugin(cluster, "revocable", "builder", super::TOKEN)?;
    let proxy = Proxy::start(cluster, "k9s", &cluster.kubeconfig(&user)?, &[]).await?;
    let screen = Screen { socket: cluster.path("tmux") };
    let k9s = cluster.tools.program("k9s", "k9s");
    let (k9s, config) = (k9s.to_string_lossy(), proxy.kubeconfig.to_string_lossy());
    let mut args = vec!["new-session", "-d", "-x", "160", "-y", "50"];
    args.extend([&*k9s, "--kubeconfig", &config, "--namespace", "default"]);
    args.extend(["--command", "configmaps", "--headless", "--logoless", "--refresh", "2"]);
    screen.tmux(cluster, &args).await?;
    for round in 0..4 {
        let name = format!("k9s-{round}");
        cluster.kubectl(&["create", "configmap", &name, "--namespace", "default"]).await?;
        let tokens = rotation::count(&runs);
        screen.shows(cluster, &name).await?;
        // The next one is made under another token.
        while rotation::count(&runs) == tokens {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(format!("4 config maps, {} tokens", rotation::count(&runs)))
}

struct Screen {
    socket: PathBuf,
}

impl Screen {
    async fn tmux(&self, cluster: &Cluster, args: &[&str]) -> Outcome<String> {
        let mut command = tools::command("tmux", &cluster.path("."));
        tools::succeed(command.arg("-S").arg(&self.socket).args(args)).await
    }

    /// Waits until the screen shows this word.
    async fn shows(&self, cluster: &Cluster, word: &str) -> Outcome<()> {
        loop {
            let seen = self.tmux(cluster, &["capture-pane", "-p"]).await?;
            if seen.split_whitespace().any(|shown| shown == word) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut command = std::process::Command::new("tmux");
        let _ = command.arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
