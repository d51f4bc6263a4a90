//! kube's own machinery over rotating credentials: real plugins, a real TLS server.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests may ask the time")]

#[allow(dead_code, reason = "its `main` reads the arguments of a process")]
#[path = "../../examples/pods.rs"]
mod example;
mod exec_info;
mod pod;

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, future::join_all};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use keyward::Client;
use keyward_host::{Kubeconfig, NoopObserver, Overrides, PlanSettings, Sources, rules::Rules};
use keyward_process::{clock::ManualClock, surroundings::Surroundings};
use keyward_testing::{
    authority::Issued,
    script::Script,
    server::{Server, User},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde_json::{Value, json};

/// Long enough for a busy machine; only a hang gets there.
const GUARD: Duration = Duration::from_secs(60);

/// The first step of the backoff: a second, give or take a fifth.
const STEP: Duration = Duration::from_millis(1200);

/// A registry of its own, with a clock in the hand: time passes when the test says so.
struct Desk {
    clock: Arc<ManualClock>,
    sources: Sources,
}

impl Desk {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(jiff::Timestamp::now()));
        Self { sources: Sources::new(clock.clone(), Arc::new(NoopObserver)), clock }
    }

    fn client(&self, server: &Server, user: &Value) -> kube::Client {
        self.open(&Kubeconfig::from_bytes(server.kubeconfig(user).as_bytes()).unwrap())
    }

    fn open(&self, config: &Kubeconfig) -> kube::Client {
        let target = config.resolve(&Overrides::default(), &Surroundings::process()).unwrap();
        let mut settings = PlanSettings::default();
        settings.person = false;
        let client = Client::builder().plan(settings);
        let client = client.open(&target, &Rules::default(), &self.sources).unwrap();
        keyward_kube::wrap(client, &target)
    }
}

fn scene() -> (Server, Script, Desk) {
    let server = Server::setup().commands().start().unwrap();
    server.users().token("one", User::new("anna"));
    let plugin = Script::new();
    plugin.answer(Some("one"), None);
    (server, plugin, Desk::new())
}

fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default" },
    })
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, future).await.expect("it took forever")
}

#[tokio::test]
async fn ten_clients_of_one_context_share_one_run_and_building_them_runs_nothing() {
    let (server, plugin, desk) = scene();
    let clients: Vec<_> = (0..10).map(|_| desk.client(&server, &plugin.user())).collect();
    assert_eq!(plugin.runs(), 0);
    assert_eq!(server.counts().connections, 0);
    let versions = join_all(clients.iter().map(kube::Client::apiserver_version)).await;
    assert!(versions.iter().all(Result::is_ok));
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn the_example_lists_the_names_of_the_pods() {
    let (server, plugin, desk) = scene();
    let client = desk.client(&server, &plugin.user());
    assert_eq!(within(example::pods(client.clone())).await.unwrap(), [""; 0]);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "web", "namespace": "default" },
    });
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    assert_eq!(within(example::pods(client)).await.unwrap(), ["web"]);
}

/// A `main` that returns the error prints it with `{:?}`.
#[tokio::test]
async fn an_error_that_main_returns_says_who_failed_and_why() {
    let (server, _, desk) = scene();
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", "echo 'no session: run `corp login`' >&2; exit 7"],
        "interactiveMode": "Never",
    } });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, server.kubeconfig(&user)).unwrap();
    let config = Kubeconfig::load(&Surroundings::process(), Some(file.path())).unwrap();
    let client = desk.open(&config);
    let error = within(client.apiserver_version()).await.unwrap_err();
    let shown = format!("{error:?}");
    for words in [
        "there is no credential for the request\n",
        "plugin `/bin/sh` failed with exit code 7\n",
        "needed by: user `",
        &format!("` in `{}`, line ", file.path().display()),
        "no session: run `corp login`",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn the_readme_names_the_versions_of_kube_and_k8s_openapi() {
    let read = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).unwrap()
    };
    let (manifest, readme) = (read("../../Cargo.toml"), read("README.md"));
    for name in ["kube", "k8s-openapi"] {
        let start = format!("\n{name} = {{ version = \"");
        let (_, rest) = manifest.split_once(&start).unwrap();
        let version = rest.split('"').next().unwrap();
        assert!(readme.contains(&format!("{start}{version}\"")), "{name} {version}: {readme}");
        assert!(readme.contains(&format!("{name} {version}")), "{name} {version}: {readme}");
    }
}

#[tokio::test]
async fn a_revoked_token_is_renewed_under_reads_and_writes() {
    let (server, plugin, desk) = scene();
    let maps: Api<ConfigMap> = Api::default_namespaced(desk.client(&server, &plugin.user()));
    maps.list(&ListParams::default()).await.unwrap();

    server.users().revoke_token("one");
    server.users().token("two", User::new("anna"));
    plugin.answer(Some("two"), None);
    let map = serde_json::from_value(config_map("renewed")).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(maps.get("renewed").await.unwrap().metadata.name.as_deref(), Some("renewed"));
    assert_eq!(plugin.runs(), 2);
}

fn names(store: &reflector::Store<ConfigMap>) -> BTreeSet<String> {
    store.state().iter().filter_map(|map| map.metadata.name.clone()).collect()
}

fn kept(server: &Server) -> BTreeSet<String> {
    let maps = server.store().all("configmaps");
    maps.iter().map(|map| map["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Lets a reflector run over ten rotations and compares what it and the server know.
async fn follow(
    server: &Server,
    client: kube::Client,
    mut rotate: impl AsyncFnMut(usize, &kube::Client),
) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let (store, writer) = reflector::store();
    let stream = watcher(maps, watcher::Config::default()).default_backoff().reflect(writer);
    let task = tokio::spawn(stream.for_each(|_| async {}));
    store.wait_until_ready().await.unwrap();
    for round in 0..10 {
        server.store().put(&config_map(&format!("before-{round}"))).unwrap();
        rotate(round, &client).await;
        server.store().put(&config_map(&format!("after-{round}"))).unwrap();
        if round > 0 {
            let old = format!("before-{}", round - 1);
            server.store().remove("configmaps", "default", &old).unwrap();
        }
    }
    let same = async {
        while names(&store) != kept(server) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let agreed = tokio::time::timeout(GUARD, same).await.is_ok();
    assert!(agreed, "{:?} is not {:?}", names(&store), kept(server));
    assert_eq!(kept(server).len(), 11);
    task.abort();
}

#[tokio::test]
async fn a_reflector_agrees_with_the_server_after_ten_tokens() {
    let (server, plugin, desk) = scene();
    let client = desk.client(&server, &plugin.user());
    follow(&server, client, async |round, client| {
        let next = format!("token-{round}");
        plugin.answer(Some(&next), None);
        server.users().revoke_tokens();
        server.users().token(&next, User::new("anna"));
        client.apiserver_version().await.unwrap();
        desk.clock.advance(STEP);
    })
    .await;
    assert_eq!(plugin.runs(), 11);
}

#[tokio::test]
async fn a_reflector_agrees_with_the_server_after_ten_certificates() {
    let server = Server::setup().start().unwrap();
    let issue = || -> Issued { server.authority().client("anna").issue().unwrap() };
    let plugin = Script::new();
    let mut pair = issue();
    plugin.answer(None, Some(&pair));
    let desk = Desk::new();
    let client = desk.client(&server, &plugin.user());
    follow(&server, client, async |_, client| {
        let next = issue();
        plugin.answer(None, Some(&next));
        server.users().revoke_certificate(pair.serial());
        pair = next;
        client.apiserver_version().await.unwrap();
        desk.clock.advance(STEP);
    })
    .await;
    assert_eq!(plugin.runs(), 11);
    let last = server.recorder().all().into_iter().rfind(|record| record.uri.path() == "/version");
    assert_eq!(last.unwrap().serial, Some(pair.serial()));
}

/// A watcher's events without its announcement that it begins to list.
fn watched(
    maps: Api<ConfigMap>,
) -> impl Stream<Item = Result<watcher::Event<ConfigMap>, watcher::Error>> {
    watcher(maps, watcher::Config::default())
        .filter(|event| std::future::ready(!matches!(event, Ok(watcher::Event::Init))))
}

#[tokio::test]
async fn a_watcher_recovers_one_step_of_back_off_after_its_plugin() {
    let (server, plugin, desk) = scene();
    plugin.fail(true);
    server.store().put(&config_map("there")).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(desk.client(&server, &plugin.user()));
    let mut events = pin!(watched(maps));
    assert!(within(events.next()).await.unwrap().is_err());
    assert!(within(events.next()).await.unwrap().is_err());
    assert_eq!(plugin.runs(), 1);

    plugin.fail(false);
    desk.clock.advance(STEP);
    assert!(within(events.next()).await.unwrap().is_ok());
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_watcher_whose_plugin_needs_a_person_sees_an_error_and_no_run() {
    let (server, plugin, desk) = scene();
    let client = desk.client(&server, &plugin.user_in("Always"));
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = pin!(watched(maps));
    assert!(within(events.next()).await.unwrap().is_err());
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test]
async fn a_plugin_that_hangs_frees_the_caller_at_its_deadline_and_the_runtime_goes_on() {
    let (server, plugin, desk) = scene();
    plugin.hold(true);
    let client = desk.client(&server, &plugin.user());
    let ticks = Arc::new(AtomicUsize::new(0));
    let counter = ticks.clone();
    let ticker = tokio::spawn(async move {
        let mut every = tokio::time::interval(Duration::from_millis(5));
        loop {
            every.tick().await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let waited = tokio::time::timeout(Duration::from_secs(1), client.apiserver_version()).await;
    assert!(waited.is_err(), "the plugin has not answered");
    assert!(ticks.load(Ordering::Relaxed) > 20, "the one thread of this runtime was not blocked");
    ticker.abort();
    plugin.hold(false);
    within(client.apiserver_version()).await.unwrap();
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_an_external_signer_holds_serves_lists_and_watches_with_one_signature() {
    let server = Server::setup().start().unwrap();
    let issued = server.authority().client("anna").issue().unwrap();
    let token = keyward_testing::signer::Token::new(&issued);
    let desk = Desk::new();
    let api: Api<ConfigMap> = Api::default_namespaced(desk.client(&server, &token.user()));
    let mut watch = pin!(watcher(api.clone(), watcher::Config::default()).applied_objects());
    let map: ConfigMap = serde_json::from_value(config_map("signed")).unwrap();
    tokio::time::timeout(GUARD, api.create(&PostParams::default(), &map)).await.unwrap().unwrap();
    let seen = tokio::time::timeout(GUARD, watch.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(seen.metadata.name.as_deref(), Some("signed"));
    let lists = join_all((0..20).map(|_| async { api.list(&ListParams::default()).await })).await;
    assert!(lists.into_iter().all(|list| list.unwrap().items.len() == 1));
    assert_eq!(server.recorder().last().unwrap().user.as_deref(), Some("anna"));
    assert_eq!((token.asked("CertificateRequest"), token.asked("SignRequest")), (1, 1));
}
