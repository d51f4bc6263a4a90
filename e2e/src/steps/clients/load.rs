//! What clients watch, and who changes it.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use super::super::rotation;
use crate::{Outcome, cluster::Cluster, config};

/// Between two changes.
const PAUSE: Duration = Duration::from_millis(250);
/// How many objects exist at a time.
const ALIVE: usize = 5;

/// Makes and removes config maps with one label as the administrator.
pub struct Load {
    maps: Api<ConfigMap>,
    label: String,
}

impl Load {
    /// With this label. Makes what exists before anybody watches: `steady`, which everybody reads, and one
    /// object with the label, by which kubectl tells that it follows.
    pub async fn new(cluster: &Cluster, label: &str) -> Outcome<Self> {
        let admin = cluster.authority.client("admin").group("system:masters").issue()?;
        let user = config::certificate(&admin);
        let (client, target) = rotation::client(cluster, &user, "keyward-e2e/load")?;
        let maps = Api::default_namespaced(keyward_kube::wrap(client, &target));
        cluster
            .apply(&json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": "steady", "namespace": "default" },
            }))
            .await?;
        let load = Self { maps, label: label.to_owned() };
        load.make(&load.first()).await?;
        Ok(load)
    }

    /// The name of the object that exists from the beginning.
    pub fn first(&self) -> String {
        format!("{}-first", self.label)
    }

    /// The selector of what it makes.
    pub fn selector(&self) -> String {
        format!("made-for={}", self.label)
    }

    /// Changes things for this long. The events that every watch must see, in their order.
    pub async fn run(&self, time: Duration) -> Outcome<Vec<String>> {
        let mut events = Vec::new();
        let begin = Instant::now();
        let mut round = 0;
        while begin.elapsed() < time {
            let name = self.name(round);
            self.make(&name).await?;
            events.push(format!("ADDED {name}"));
            if let Some(old) = round.checked_sub(ALIVE) {
                let name = self.name(old);
                self.maps.delete(&name, &DeleteParams::default()).await?;
                events.push(format!("DELETED {name}"));
            }
            round += 1;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(events)
    }

    async fn make(&self, name: &str) -> Outcome<()> {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "made-for": self.label } },
        }))?;
        self.maps.create(&PostParams::default(), &map).await?;
        Ok(())
    }

    fn name(&self, round: usize) -> String {
        format!("{}-{round}", self.label)
    }
}
