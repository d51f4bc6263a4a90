//! kube-runtime's watchers and reflectors over the real server.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::ListParams,
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde_json::{Value, json};

use super::{rotation, users};
use crate::{Outcome, cluster::Cluster};

/// Rotations that a reflector must live through.
const ROTATIONS: usize = 4;

pub async fn tokens(cluster: &Cluster) -> Outcome<String> {
    follow(cluster, users::plugin(cluster, "token", "builder", rotation::LIFETIME)?, "token").await
}

pub async fn certificates(cluster: &Cluster) -> Outcome<String> {
    follow(
        cluster,
        users::plugin(cluster, "certificate", "celia", rotation::LIFETIME)?,
        "certificate",
    )
    .await
}

/// Makes and removes config maps as the administrator while a reflector follows with credentials
/// that end every few seconds; at the end it knows what the server knows.
async fn follow(
    cluster: &Cluster,
    (user, runs): (Value, std::path::PathBuf),
    label: &str,
) -> Outcome<String> {
    let (client, target) = rotation::client(cluster, &user)?;
    let client = keyward_kube::wrap(client, &target);
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let selector = format!("made-for={label}");
    let (store, writer) = reflector::store();
    let events = Arc::new(AtomicUsize::new(0));
    let (count, (tell, mut wrong)) = (events.clone(), tokio::sync::mpsc::unbounded_channel());
    let stream = watcher(maps.clone(), watcher::Config::default().labels(&selector))
        .default_backoff()
        .reflect(writer);
    let task = tokio::spawn(stream.for_each(move |event| {
        count.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = event {
            let _ = tell.send(error.to_string());
        }
        async {}
    }));
    // Ends the watch however this function ends.
    let _guard = Guard(task);
    tokio::select! {
        ready = store.wait_until_ready() => ready?,
        Some(error) = wrong.recv() => return Err(format!("the watch: {error}").into()),
    }

    let mut round = 0;
    while rotation::count(&runs) < ROTATIONS + 1 {
        cluster.apply(&config_map(label, round)).await?;
        if round > 1 {
            let old = format!("{label}-{}", round - 2);
            cluster.kubectl(&["delete", "configmap", &old, "--namespace", "default"]).await?;
        }
        // Somebody has to ask for something: an idle client runs no plugin.
        maps.list(&ListParams::default().limit(1)).await?;
        round += 1;
    }
    loop {
        let known: BTreeSet<String> =
            store.state().iter().filter_map(|map| map.metadata.name.clone()).collect();
        let list = ["get", "configmaps", "--namespace", "default", "-l", &selector, "-o", "name"];
        let there: BTreeSet<String> = cluster
            .kubectl(&list)
            .await?
            .lines()
            .map(|line| line.trim_start_matches("configmap/").to_owned())
            .collect();
        if known == there && !known.is_empty() {
            if let Ok(error) = wrong.try_recv() {
                return Err(format!("the watch: {error}").into());
            }
            let events = events.load(Ordering::Relaxed);
            return Ok(format!(
                "{round} changes, {events} events, {} runs, no error",
                rotation::count(&runs)
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

struct Guard(tokio::task::JoinHandle<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn config_map(label: &str, round: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format!("{label}-{round}"),
            "namespace": "default",
            "labels": { "made-for": label },
        },
    })
}
