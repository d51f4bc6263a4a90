//! Two clusters behind one proxy whose kinds differ: no client may mistake one for the other.

use std::path::{Path, PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_testing::script::Script;
use serde_json::{Value, json};

use super::{super::proxy::Proxy, helm};
use crate::{Outcome, cluster::Cluster, config, tools};

/// A context, and the one version of `widgets` that its cluster serves.
const CONTEXTS: [(&str, &str); 2] = [("east", "v1"), ("west", "v2")];

/// kubectl, helm and Python ask both clusters in turn, then again, then after a restart of the proxy.
pub async fn different(cluster: &Cluster) -> Outcome<String> {
    let west = cluster.second().await?;
    let addresses = [&cluster.address, &west];
    let admin = cluster.authority.client("widget-admin").group("system:masters").issue()?;
    for ((context, version), address) in CONTEXTS.into_iter().zip(addresses) {
        let text = config::text(address, cluster.authority.pem(), &config::certificate(&admin));
        let direct = config::write(&cluster.path("."), &text)?;
        furnish(cluster, &direct, context, version).await?;
    }
    let plugin = Script::new();
    plugin.answer(None, Some(&admin));
    let both = both(cluster, addresses, &plugin.user())?;
    let mut asked = 0;
    for start in 0..2 {
        let proxy = Proxy::serve(cluster, "two-clusters", &both, &["--all-contexts"], &[]).await?;
        for round in 0..2 {
            for (context, version) in CONTEXTS {
                asked += ask(cluster, &proxy.kubeconfig, context, version)
                    .await
                    .map_err(|e| format!("start {start}, round {round}, {context}: {e}"))?;
            }
        }
    }
    Ok(format!("{asked} answers, each from the right cluster, over one restart of the proxy"))
}

/// Every client asks for the widgets of this context. How many did.
async fn ask(cluster: &Cluster, kubeconfig: &Path, context: &str, version: &str) -> Outcome<usize> {
    let expected = format!("{context}-widget");
    let kubectl = async |args: &[&str]| {
        let mut command = tools::command(cluster.tools.kubernetes("kubectl"), &cluster.path("."));
        command.arg("--kubeconfig").arg(kubeconfig).args(["--context", context]).args(args);
        tools::succeed(&mut command).await
    };
    let name = kubectl(&["get", "widgets", "-o", "jsonpath={.items[*].metadata.name}"]).await?;
    let served = kubectl(&["api-resources", "--api-group=example.org", "--no-headers"]).await?;
    if name != expected || !served.contains(&format!("example.org/{version}")) {
        return Err(format!("kubectl sees {name:?} and {served:?}").into());
    }
    for helm in helm::VERSIONS {
        let chart = chart(cluster, context, version)?;
        let release = format!("{context}-{helm}");
        let words = ["upgrade", "--install", &release, &chart.to_string_lossy()];
        let words = [&words[..], &["--kube-context", context, "--namespace", "default"]].concat();
        helm::run(cluster, helm, kubeconfig, &words).await?;
        helm::run(
            cluster,
            helm,
            kubeconfig,
            &["uninstall", &release, "--kube-context", context, "--namespace", "default"],
        )
        .await?;
    }
    let mut python = tools::command(cluster.tools.python(), &cluster.path("."));
    python.arg(tools::Tools::file("clients/python/widgets.py")).arg(kubeconfig);
    let seen = tools::succeed(python.args([context, version])).await?;
    if seen.trim() != expected {
        return Err(format!("python sees {seen:?}").into());
    }
    Ok(2 + helm::VERSIONS.len())
}

/// Makes the kind in its one version, and one object.
async fn furnish(cluster: &Cluster, admin: &Path, context: &str, version: &str) -> Outcome<()> {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.org" },
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    let kubectl = async |args: &[&str]| {
        let mut command =
            tools::command(cluster.tools.kubernetes("kubectl"), &cluster.path(context));
        tools::succeed(command.arg("--kubeconfig").arg(admin).args(args)).await
    };
    std::fs::create_dir_all(cluster.path(context))?;
    let file = config::write(&cluster.path("."), &definition.to_string())?;
    kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
    kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd/widgets.example.org"])
        .await?;
    let object = widget(&format!("{context}-widget"), version);
    let file = config::write(&cluster.path("."), &object.to_string())?;
    kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
    Ok(())
}

fn widget(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": format!("example.org/{version}"),
        "kind": "Widget",
        "metadata": { "name": name, "namespace": "default" },
    })
}

/// A chart with one widget of this version.
fn chart(cluster: &Cluster, context: &str, version: &str) -> Outcome<PathBuf> {
    let chart = cluster.path(&format!("chart-{context}"));
    std::fs::create_dir_all(chart.join("templates"))?;
    std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: widget\nversion: 1.0.0\n")?;
    let object = widget(&format!("{context}-of-helm"), version);
    std::fs::write(chart.join("templates/widget.yaml"), object.to_string())?;
    Ok(chart)
}

/// A kubeconfig with both contexts and one user.
fn both(cluster: &Cluster, addresses: [&String; 2], user: &Value) -> Outcome<PathBuf> {
    let authority = BASE64_STANDARD.encode(cluster.authority.pem());
    let named = |(context, _): (&str, &str), address: &String| {
        json!({ "name": context, "cluster": {
            "server": address,
            "certificate-authority-data": authority,
        } })
    };
    let clusters: Vec<Value> =
        CONTEXTS.into_iter().zip(addresses).map(|(context, at)| named(context, at)).collect();
    let contexts: Vec<Value> = CONTEXTS
        .iter()
        .map(|(name, _)| json!({ "name": name, "context": { "cluster": name, "user": "both" } }))
        .collect();
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": [{ "name": "both", "user": user }],
        "contexts": contexts,
        "current-context": "east",
    });
    config::write(&cluster.path("."), &text.to_string())
}
