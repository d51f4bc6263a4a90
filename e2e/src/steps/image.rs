//! Image credentials in service-account mode: the tokens come from the cluster's `TokenRequest` API.

use serde_json::{Value, json};

use crate::{Outcome, cluster::Cluster, config, tools::Tools};

const AUDIENCE: &str = "registry.example";

/// What the provider got is its answer's password, so the cluster itself can say what it was.
pub async fn account(cluster: &Cluster) -> Outcome<String> {
    cluster.apply(&pod()).await?;
    let args = ["--service-account", "puller"];
    let seen = review(cluster, &password(cluster, &args).await?).await?;
    if seen["user"]["username"] != "system:serviceaccount:default:puller" {
        return Err(format!("the cluster says {seen}").into());
    }
    let bound = &seen["user"]["extra"]["authentication.kubernetes.io/pod-name"];
    if !bound.is_null() {
        return Err(format!("the token is bound to {bound}").into());
    }
    Ok(format!("{} for {AUDIENCE}, bound to no pod", seen["user"]["username"]))
}

/// With a pod the token is bound to it, and ends with it.
pub async fn pod_token(cluster: &Cluster) -> Outcome<String> {
    cluster.apply(&pod()).await?;
    let token = password(cluster, &["--pod", "pulling"]).await?;
    let seen = review(cluster, &token).await?;
    let bound = &seen["user"]["extra"]["authentication.kubernetes.io/pod-name"];
    if bound != &json!(["pulling"]) {
        return Err(format!("the cluster says {seen}").into());
    }
    let delete =
        ["delete", "pod", "pulling", "--namespace", "default", "--force", "--grace-period", "0"];
    cluster.kubectl(&delete).await?;
    while review(cluster, &token).await?["authenticated"] == true {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    Ok("bound to the pod, and refused once that is gone".to_owned())
}

/// Asks for the login of an image; its user name is the annotation that the provider asked for.
async fn password(cluster: &Cluster, args: &[&str]) -> Outcome<String> {
    let file = cluster.path("providers.json");
    config::private(&file, &providers().to_string())?;
    let (file, folder) = (file.to_string_lossy().into_owned(), Tools::file("plugins"));
    let folder = folder.to_string_lossy().into_owned();
    let words =
        ["image", "credentials", "--config", &file, "--bin-dir", &folder, "--namespace", "default"];
    let words = [&words, args, &["registry.example/app:1"]].concat();
    let seen = cluster.ours(&cluster.admin, &words).await?.json()?;
    let login = &seen["images"][0]["logins"][0];
    if login["username"] != "pulling" || login["serviceAccount"] != "puller" {
        let mut shown = login.clone();
        shown["password"] = json!("[hidden]");
        return Err(format!("the login is {shown}").into());
    }
    Ok(login["password"].as_str().unwrap_or_default().to_owned())
}

/// What the cluster says about a token.
async fn review(cluster: &Cluster, token: &str) -> Outcome<Value> {
    let object = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": { "token": token, "audiences": [AUDIENCE] },
    });
    let file = cluster.path("review.json");
    config::private(&file, &object.to_string())?;
    let seen = cluster.kubectl(&["create", "-o", "json", "-f", &file.to_string_lossy()]).await?;
    Ok(serde_json::from_str::<Value>(&seen)?["status"].take())
}

fn providers() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "provider.sh",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [AUDIENCE],
            "defaultCacheDuration": "0s",
            "tokenAttributes": {
                "serviceAccountTokenAudience": AUDIENCE,
                "cacheType": "Token",
                "requireServiceAccount": true,
                "requiredServiceAccountAnnotationKeys": ["example.org/purpose"],
            },
        }],
    })
}

/// No kubelet will ever run it: a token can be bound to it all the same.
fn pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "pulling", "namespace": "default" },
        "spec": {
            "serviceAccountName": "puller",
            "containers": [{ "name": "app", "image": "registry.example/app:1" }],
        },
    })
}
