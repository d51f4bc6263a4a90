//! Each context has an address of its own, the same at every start.

use std::{
    fs,
    io::{Read, Write},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{
    stage::{Proxy, Stage},
    upstream::{Stream, serve},
};

/// A cluster whose only kind, besides those of every cluster, is `Widget` in one version.
struct Cluster {
    kubeconfig: Value,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn start(name: &'static str, version: &'static str) -> Self {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = asked.clone();
        let kubeconfig =
            serve(&json!({ "token": "x" }), move |stream| talk(stream, name, version, &kept));
        let mut kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
        for list in ["clusters", "users", "contexts"] {
            kubeconfig[list][0]["name"] = name.into();
        }
        kubeconfig["contexts"][0]["context"] = json!({ "cluster": name, "user": name });
        Self { kubeconfig, asked }
    }

    /// How often it was asked for its groups of kinds since the last look.
    fn discoveries(&self) -> usize {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.iter().filter(|path| *path == "/apis").count()
    }
}

fn talk(mut stream: Stream, name: &str, version: &str, asked: &Mutex<Vec<String>>) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        while let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            let head: Vec<u8> = bytes.drain(..end + 4).collect();
            let head = String::from_utf8_lossy(&head);
            let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
            let (code, body) = answer(&path, name, version);
            asked.lock().unwrap().push(path);
            let body = body.to_string();
            let head = format!("HTTP/1.1 {code} x\r\nContent-Type: application/json\r\n");
            let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            if stream.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(size) if size > 0 => bytes.extend_from_slice(&piece[..size]),
            _ => return,
        }
    }
}

fn answer(path: &str, name: &str, version: &str) -> (u16, Value) {
    let group = format!("example.org/{version}");
    let known = json!({ "groupVersion": group, "version": version });
    let list = format!("/apis/{group}/namespaces/default/widgets");
    let body = match path {
        "/api" => json!({ "kind": "APIVersions", "versions": ["v1"] }),
        "/apis" => json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [
            { "name": "example.org", "versions": [known], "preferredVersion": known },
        ] }),
        "/api/v1" => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [{
                "name": "pods", "singularName": "pod", "kind": "Pod", "namespaced": true,
                "verbs": ["get", "list"],
            }],
        }),
        path if path == format!("/apis/{group}") => json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [{
                "name": "widgets", "singularName": "widget", "kind": "Widget", "namespaced": true,
                "verbs": ["get", "list"],
            }],
        }),
        path if path == list => json!({
            "kind": "WidgetList", "apiVersion": group, "metadata": {}, "items": [
                { "kind": "Widget", "apiVersion": group, "metadata": { "name": name } },
            ],
        }),
        _ => {
            return (
                404,
                json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                    "message": "the server could not find the requested resource", "code": 404,
                }),
            );
        }
    };
    (200, body)
}

/// Two clusters whose widgets have another version each, and a kubeconfig of both.
fn two() -> (Stage, [Cluster; 2]) {
    let clusters = [Cluster::start("east", "v1"), Cluster::start("west", "v2")];
    let mut both = clusters[0].kubeconfig.clone();
    for list in ["clusters", "users", "contexts"] {
        let other = clusters[1].kubeconfig[list][0].clone();
        both[list].as_array_mut().unwrap().push(other);
    }
    both["current-context"] = "east".into();
    let stage = Stage::new();
    stage.write("config", &both.to_string());
    (stage, clusters)
}

fn servers(proxy: &Proxy) -> Vec<String> {
    let config: Value =
        serde_json::from_str(&fs::read_to_string(&proxy.kubeconfig).unwrap()).unwrap();
    let clusters = config["clusters"].as_array().unwrap().iter();
    clusters.map(|one| one["cluster"]["server"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn kubectl_finds_what_each_cluster_has_at_once_later_and_after_a_restart() {
    let (stage, clusters) = two();
    let mut addresses = Vec::new();
    for start in 1..=2 {
        let proxy = stage.proxy(&["--all-contexts"]);
        for context in ["east", "west", "east", "west"] {
            let found = proxy.prints(&["--context", context, "get", "widgets", "-o", "name"]);
            assert_eq!(found, format!("widget.example.org/{context}\n"), "start {start}");
        }
        addresses.push(servers(&proxy));
        for cluster in &clusters {
            let cold = usize::from(start == 1);
            assert_eq!(cluster.discoveries(), cold, "start {start}: the cache stays warm");
        }
        assert!(proxy.end().0.success());
    }
    assert_ne!(addresses[0][0], addresses[0][1]);
    assert_eq!(addresses[0], addresses[1]);
}

#[test]
fn a_command_finds_the_cache_of_the_last_one_and_leaves_none_behind() {
    let (stage, clusters) = two();
    for run in 1..=3 {
        let mut command =
            stage.keyward(&["proxy", "--", "kubectl", "get", "widgets", "-o", "name"]);
        let output = command.output().unwrap();
        assert_eq!(output.stdout, b"widget.example.org/east\n", "{output:?}");
        assert_eq!(clusters[0].discoveries(), usize::from(run == 1), "run {run}");
    }
    let kept = fs::read_dir(stage.path(".kube/cache/discovery")).unwrap().count();
    assert_eq!(kept, 1, "one directory for one context");
    // Another context alone has another address than the first had.
    let args = ["proxy", "--context", "west", "--", "kubectl", "get", "widgets", "-o", "name"];
    let output = stage.keyward(&args).output().unwrap();
    assert_eq!(output.stdout, b"widget.example.org/west\n", "{output:?}");
}
