//! Images that a real kubelet pulls with logins of the providers for clouds and token services, which stand-ins give.

use serde_json::{Value, json};

use super::pulls;
use crate::{Outcome, cluster::Cluster, outside, worker::CLOUDS};

/// A pod whose service account's token is exchanged for a login.
pub async fn exchange(cluster: &Cluster) -> Outcome<String> {
    let host = &cluster.worker().await?.registries.passwords;
    let given = "exchange system:serviceaccount:default:puller";
    let account = json!({ "serviceAccountName": "puller" });
    pull(cluster, "exchange", host, given, account).await
}

/// An image of Amazon ECR, with the node's own key.
pub async fn ecr(cluster: &Cluster) -> Outcome<String> {
    let given = format!("ecr {}", outside::ACCESS_KEY);
    pull(cluster, "ecr", CLOUDS[0], &given, json!({})).await
}

/// An image of Google Artifact Registry, with the machine's own token.
pub async fn gar(cluster: &Cluster) -> Outcome<String> {
    pull(cluster, "gar", CLOUDS[1], "metadata default", json!({})).await
}

/// The service must have given the login, and the registry, which needs one, must have let containerd in.
async fn pull(
    cluster: &Cluster,
    name: &str,
    host: &str,
    given: &str,
    more: Value,
) -> Outcome<String> {
    let registries = &cluster.worker().await?.registries;
    let repository = format!("{name}/app");
    let image = pulls::image(cluster, cluster.worker().await?, host, &repository).await?;
    let pod = pulls::start(cluster, name, &image, more).await?;
    pulls::running(cluster, &pod).await?;
    pulls::end(cluster, &pod).await?;
    if registries.given(given)? == 0 {
        return Err(format!("no service said `{given}`").into());
    }
    pulls::admitted(cluster.worker().await?, &repository)?;
    Ok(format!("`{given}`, then `{image}` was pulled"))
}
