//! A client on top of a plugin whose answers and failures the test chooses.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyward::{Client, client::Builder};
use keyward_host::{
    Kubeconfig, NoopObserver, Observer, Overrides, Plan, PlanSettings, Source, Sources, Target,
    rules::Rules,
};
use keyward_process::{clock::ManualClock, surroundings::Surroundings};
pub(crate) use keyward_testing::script::Script as Plugin;
use keyward_testing::server::Server;
use serde_json::Value;

/// Long enough for a busy machine; only a hang gets there.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

/// A registry of its own, with a clock in the hand: time passes when the test says so.
pub(crate) struct Desk {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) sources: Sources,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::observed(Arc::new(NoopObserver))
    }

    /// With somebody who is told of everything.
    pub(crate) fn observed(observer: Arc<dyn Observer>) -> Self {
        let clock = Arc::new(ManualClock::new(jiff::Timestamp::now()));
        Self { sources: Sources::new(clock.clone(), observer), clock }
    }

    pub(crate) fn source(&self, kubeconfig: &str) -> Source {
        let surroundings = Surroundings::process();
        let plan =
            Plan::new(target(kubeconfig), &Rules::default(), &surroundings, settings()).unwrap();
        self.sources.open(&plan)
    }

    pub(crate) fn client(&self, server: &Server, user: &Value) -> Client {
        self.client_with(server, user, Client::builder())
    }

    pub(crate) fn client_with(&self, server: &Server, user: &Value, builder: Builder) -> Client {
        self.client_of(&server.kubeconfig(user), builder)
    }

    pub(crate) fn client_of(&self, kubeconfig: &str, builder: Builder) -> Client {
        let target = target(kubeconfig);
        builder.plan(settings()).open(&target, &Rules::default(), &self.sources).unwrap()
    }
}

/// The server's kubeconfig with these fields in its cluster entry.
pub(crate) fn kubeconfig(server: &Server, user: &Value, cluster: &Value) -> String {
    let mut whole: Value = serde_json::from_str(&server.kubeconfig(user)).unwrap();
    let entry = whole["clusters"][0]["cluster"].as_object_mut().unwrap();
    for (name, value) in cluster.as_object().unwrap() {
        entry.insert(name.clone(), value.clone());
    }
    entry.retain(|_, value| !value.is_null());
    whole.to_string()
}

pub(crate) fn target(kubeconfig: &str) -> Target {
    let kubeconfig = Kubeconfig::from_bytes(kubeconfig.as_bytes()).unwrap();
    kubeconfig.resolve(&Overrides::default(), &Surroundings::process()).unwrap()
}

/// As in a daemon: nobody is asked.
fn settings() -> PlanSettings {
    let mut settings = PlanSettings::default();
    settings.person = false;
    settings
}

/// The status of a request, its body read to the end.
pub(crate) async fn status(client: &Client, path: &str) -> u16 {
    let response = within(client.get(path)).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().bytes().await.unwrap();
    status
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, future).await.expect("it took for ever")
}

/// Waits for something to become true; fails only if it never does.
pub(crate) async fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let wait = async {
        while !seen() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(GUARD, wait).await.is_ok(), "never saw: {what}");
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}
