//! Images that a real kubelet pulls with logins of ours, and what people see when there is none.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    Outcome,
    cluster::Cluster,
    config,
    worker::{self, PASSWORD, Worker},
};

/// A pod whose image is in the registry with passwords.
pub async fn docker(cluster: &Cluster) -> Outcome<String> {
    let worker = cluster.worker().await?;
    let image = image(cluster, worker, &worker.registries.passwords, "docker/app").await?;
    let pod = start(cluster, "docker", &image, json!({})).await?;
    running(cluster, &pod).await?;
    admitted(worker, "docker/app")?;
    explained(cluster, &image, "keyward-provider-docker").await?;
    end(cluster, &pod).await?;
    Ok(format!("the registry let `{}` in", worker::USER))
}

/// A pod whose image is in the registry that asks the cluster about tokens.
pub async fn token(cluster: &Cluster) -> Outcome<String> {
    const ACCOUNT: &str = "system:serviceaccount:default:puller";
    let worker = cluster.worker().await?;
    let image = image(cluster, worker, &worker.registries.tokens, "token/app").await?;
    let pod = start(cluster, "token", &image, json!({ "serviceAccountName": "puller" })).await?;
    running(cluster, &pod).await?;
    admitted(worker, "token/app")?;
    explained(cluster, &image, "keyward-provider-token").await?;
    if worker.registries.logins(ACCOUNT)? == 0 {
        return Err(format!("`{ACCOUNT}` did not log in").into());
    }
    end(cluster, &pod).await?;
    Ok(format!("the registry let `{ACCOUNT}` in"))
}

/// A configuration and a plugin in the form of the original proposal, which no kubelet can read or run.
pub async fn proposal(cluster: &Cluster) -> Outcome<String> {
    let worker = cluster.worker().await?;
    let image = image(cluster, worker, &worker.registries.passwords, "node/app").await?;
    Behind::Proposal.configure(worker)?;
    let pod = start(cluster, "proposal", &image, json!({})).await?;
    running(cluster, &pod).await?;
    admitted(worker, "node/app")?;
    explained(cluster, &image, "keyward-provider-node").await?;
    end(cluster, &pod).await?;
    Ok("a plugin named `ecr-creds` supplied the login".to_owned())
}

/// The kubelet is asked for many pulls while what stands behind it changes.
pub async fn switched(cluster: &Cluster) -> Outcome<String> {
    /// Pulls of a pod: each container pulls its image.
    const PULLS: usize = 10;
    let worker = cluster.worker().await?;
    let image = image(cluster, worker, &worker.registries.passwords, "node/app").await?;
    let started = worker.started();
    let container = |number: usize| json!({ "name": format!("app-{number}"), "image": image, "imagePullPolicy": "Always" });
    let containers = json!({ "containers": (0..PULLS).map(container).collect::<Vec<_>>() });
    let (mut pulled, mut refused) = (0, 0);
    let turns =
        [Behind::Proposal, Behind::Nothing, Behind::Docker, Behind::Broken, Behind::Removed];
    for (turn, behind) in turns.iter().cycle().take(10).enumerate() {
        behind.configure(worker)?;
        let pod = start(cluster, &format!("turn-{turn}"), &image, containers.clone()).await?;
        let wanted = if behind.has_login() { "running" } else { "waiting" };
        states(cluster, &pod, |state| {
            match (state["running"].is_object(), state["waiting"]["reason"].as_str()) {
                (true, _) if behind.has_login() => Ok(true),
                (_, Some("ErrImagePull" | "ImagePullBackOff")) if !behind.has_login() => Ok(true),
                (true, _) | (_, Some("ErrImagePull" | "ImagePullBackOff")) => {
                    Err(format!("turn {turn} ({behind:?}): not {wanted}: {state}").into())
                }
                _ => Ok(false),
            }
        })
        .await?;
        end(cluster, &pod).await?;
        *(if behind.has_login() { &mut pulled } else { &mut refused }) += PULLS;
    }
    if worker.started() != started {
        return Err("the kubelet was restarted".into());
    }
    Ok(format!("{pulled} pulls with a login, {refused} without; the same kubelet all the time"))
}

/// What `keyward-provider-node` is configured with.
#[derive(Debug, Clone, Copy)]
enum Behind {
    /// A plugin in the form of the original proposal.
    Proposal,
    /// No providers.
    Nothing,
    /// `keyward-provider-docker`.
    Docker,
    /// A file that is not valid: the one before stays in force, which has a login.
    Broken,
    /// No file.
    Removed,
}

impl Behind {
    fn has_login(self) -> bool {
        !matches!(self, Self::Nothing | Self::Removed)
    }

    fn configure(self, worker: &Worker) -> Outcome<()> {
        let file = worker.path("node.yaml");
        let host = &worker.registries.passwords;
        let config = |providers: Value| {
            json!({
                "apiVersion": "kubelet.config.k8s.io/v1",
                "kind": "CredentialProviderConfig",
                "providers": providers,
            })
        };
        let text = match self {
            Self::Proposal => format!(
                "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n-\n  name: ecr-creds\n  \
                 imageMatchers:\n  - '{host}'\n  extraArgs:\n    username: {}\n    password: {PASSWORD}\n",
                worker::USER
            ),
            Self::Nothing => config(json!([])).to_string(),
            Self::Docker => config(json!([{
                "name": "keyward-provider-docker",
                "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
                "matchImages": [host],
                "defaultCacheDuration": "0s",
                "args": ["--config", worker.path("docker.json")],
            }]))
            .to_string(),
            Self::Broken => "kind: [oops\n".to_owned(),
            Self::Removed => return Ok(fs::remove_file(file)?),
        };
        // Replaced in one step, as a person would on a node that pulls.
        let new = worker.path("node.yaml.new");
        config::private(&new, &text)?;
        Ok(fs::rename(new, file)?)
    }
}

/// The file is read for every pull.
pub async fn wrong_password(cluster: &Cluster) -> Outcome<String> {
    let worker = cluster.worker().await?;
    let image = image(cluster, worker, &worker.registries.passwords, "docker/wrong").await?;
    write(worker, &worker.registries.docker_config("not-the-password").to_string())?;
    let pod = start(cluster, "wrong-password", &image, json!({})).await?;
    let said = refused(cluster, &pod).await?;
    write(worker, &worker.registries.docker_config(PASSWORD).to_string())?;
    running(cluster, &pod).await?;
    end(cluster, &pod).await?;
    Ok(said)
}

/// What the provider says goes to the kubelet's log.
pub async fn broken_file(cluster: &Cluster) -> Outcome<String> {
    let worker = cluster.worker().await?;
    let image = image(cluster, worker, &worker.registries.passwords, "docker/broken").await?;
    write(worker, "{\n  \"auths\": {\n    oops\n")?;
    let pod = start(cluster, "broken-file", &image, json!({})).await?;
    let said = refused(cluster, &pod).await?;
    let logged = worker.logged(&["keyward-provider-docker", "docker.json", "line 3"])?;
    write(worker, &worker.registries.docker_config(PASSWORD).to_string())?;
    running(cluster, &pod).await?;
    end(cluster, &pod).await?;
    if logged == 0 {
        return Err("the kubelet's log does not name the file and its line".into());
    }
    Ok(said)
}

/// A provider that exits with an error.
pub async fn failing(cluster: &Cluster) -> Outcome<String> {
    without(cluster, "failing", "the vault is sealed").await
}

/// A provider that never answers: the kubelet gives it a minute.
pub async fn hanging(cluster: &Cluster) -> Outcome<String> {
    without(cluster, "hanging", "deadline exceeded").await
}

/// A provider whose program was removed while the kubelet runs.
pub async fn gone(cluster: &Cluster) -> Outcome<String> {
    let worker = cluster.worker().await?;
    let (program, aside) = (worker.path("bin/gone"), worker.path("gone"));
    fs::rename(&program, &aside)?;
    let outcome = without(cluster, "gone", "no such file or directory").await;
    // A kubelet does not start without it, and a later step starts one.
    fs::rename(&aside, &program)?;
    outcome
}

/// The registry refuses the pull, and the kubelet's log says why there was no login.
async fn without(cluster: &Cluster, provider: &str, reason: &str) -> Outcome<String> {
    let worker = cluster.worker().await?;
    let repository = format!("{provider}/app");
    let image = image(cluster, worker, &worker.registries.passwords, &repository).await?;
    let pod = start(cluster, provider, &image, json!({})).await?;
    let said = refused(cluster, &pod).await?;
    let explained = explained(cluster, &image, provider).await?;
    end(cluster, &pod).await?;
    if worker.logged(&[provider, reason])? == 0 {
        return Err(format!("the kubelet's log does not say `{reason}`").into());
    }
    Ok(format!("event: {said}; explain: {explained}"))
}

/// `keyward image explain` names the provider that the kubelet asks; the line with its answer.
async fn explained(cluster: &Cluster, image: &str, provider: &str) -> Outcome<String> {
    let said = cluster.worker().await?.explain(cluster, image).await?;
    // The image's own name contains the provider's.
    let mut lines = said.lines().filter(|line| !line.contains(&format!("{provider}/app")));
    match lines.find(|line| line.contains(provider)) {
        Some(line) => Ok(line.trim().to_owned()),
        None => Err(format!("`keyward image explain` says {said}").into()),
    }
}

/// Stores an image; its name.
pub async fn image(cluster: &Cluster, worker: &Worker, host: &str, name: &str) -> Outcome<String> {
    worker.push(cluster, name).await?;
    Ok(format!("{host}/{name}:1"))
}

/// Changes docker's file on the node.
fn write(worker: &Worker, text: &str) -> Outcome<()> {
    config::private(&worker.path("docker.json"), text)
}

/// Starts a pod with one container; its name.
pub async fn start(cluster: &Cluster, name: &str, image: &str, more: Value) -> Outcome<String> {
    let name = format!("pull-{name}");
    let mut spec = json!({
        "nodeName": worker::NAME,
        "hostNetwork": true,
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 0,
        "containers": [{ "name": "app", "image": image, "imagePullPolicy": "Always" }],
    });
    if let (Value::Object(all), Value::Object(more)) = (&mut spec, more) {
        all.extend(more);
    }
    let metadata = json!({ "name": name, "namespace": "default" });
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
    cluster.apply(&pod).await?;
    Ok(name)
}

/// Waits until its container runs.
pub async fn running(cluster: &Cluster, pod: &str) -> Outcome<()> {
    state(cluster, pod, |state| state["running"].is_object().then_some(())).await
}

/// Waits until the registry has refused the pull; what the pod's events say.
async fn refused(cluster: &Cluster, pod: &str) -> Outcome<String> {
    let said = state(cluster, pod, |state| {
        let refused = state["waiting"]["reason"] == "ErrImagePull";
        refused.then(|| state["waiting"]["message"].as_str().unwrap_or_default().to_owned())
    })
    .await?;
    if !said.contains("401 Unauthorized") && !said.contains("no basic auth credentials") {
        return Err(format!("the pull failed otherwise: {said}").into());
    }
    let selector = format!("involvedObject.name={pod},reason=Failed");
    // The kubelet sends events in the background, and not too many a second. The step's own limit ends the wait.
    let args = ["get", "events", "--namespace", "default", "--field-selector", &selector];
    while !cluster.kubectl(&args).await?.contains("Failed to pull image") {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(said)
}

/// Waits until the state of the pod's container is the wanted one. The step's own limit ends the wait.
async fn state<T>(
    cluster: &Cluster,
    pod: &str,
    wanted: impl Fn(&Value) -> Option<T>,
) -> Outcome<T> {
    loop {
        let statuses = statuses(cluster, pod).await?;
        if let Some(found) = wanted(&statuses[0]["state"]) {
            return Ok(found);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until the states of all its containers are the wanted ones.
async fn states(
    cluster: &Cluster,
    pod: &str,
    wanted: impl Fn(&Value) -> Outcome<bool>,
) -> Outcome<()> {
    loop {
        let statuses = statuses(cluster, pod).await?;
        let all = statuses.as_array().map_or(&[][..], Vec::as_slice);
        let mut done = !all.is_empty();
        for status in all {
            done &= wanted(&status["state"])?;
        }
        if done {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn statuses(cluster: &Cluster, pod: &str) -> Outcome<Value> {
    let args = ["get", "pod", pod, "--namespace", "default", "--output", "json"];
    let mut pod: Value = serde_json::from_str(&cluster.kubectl(&args).await?)?;
    Ok(pod["status"]["containerStatuses"].take())
}

/// Removes a pod and waits until its containers have ended.
pub async fn end(cluster: &Cluster, pod: &str) -> Outcome<()> {
    cluster.kubectl(&["delete", "pod", pod, "--namespace", "default", "--wait"]).await.map(drop)
}

/// The registry itself says whether it let containerd in.
pub fn admitted(worker: &Worker, repository: &str) -> Outcome<()> {
    if worker.registries.admitted(repository)? == 0 {
        return Err(format!("the registry let nobody in to `{repository}`").into());
    }
    Ok(())
}
