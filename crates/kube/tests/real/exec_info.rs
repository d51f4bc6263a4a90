//! A plugin calls the cluster of its request: the example is started as a client would start it.

use std::process::{Command, Output};

use keyward_testing::{
    plugin::client_example,
    proxy::{Kind, Proxy},
    server::Server,
};
use serde_json::{Value, json};

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// A server that shows one object to everybody.
fn server() -> Server {
    let server = Server::setup().start().unwrap();
    server.users().open("/api/v1/namespaces/kube-public/configmaps/cluster-info");
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "kube-public" } });
    server.store().put(&namespace).unwrap();
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": "cluster-info", "namespace": "kube-public" },
        "data": { "kubeconfig": "for everybody" },
    });
    server.store().put(&map).unwrap();
    server
}

/// The cluster of this server, as a request has it.
fn cluster(server: &Server) -> Value {
    let kubeconfig: Value = serde_json::from_str(&server.kubeconfig(&json!({}))).unwrap();
    kubeconfig["clusters"][0]["cluster"].clone()
}

fn ask(version: &str, spec: &Value) -> Output {
    let request = json!({
        "kind": "ExecCredential",
        "apiVersion": format!("client.authentication.k8s.io/{version}"),
        "spec": spec,
    });
    Command::new(client_example("keyward-kube", "cluster_info"))
        .env("KUBERNETES_EXEC_INFO", request.to_string())
        .output()
        .unwrap()
}

#[track_caller]
fn assert_answered(output: &Output) {
    let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said:?}");
    assert_eq!(said, ("for everybody\n".into(), "".into()));
}

#[test]
fn a_request_of_either_version_becomes_a_kube_client() {
    let server = server();
    for version in VERSIONS {
        assert_answered(&ask(version, &json!({ "cluster": cluster(&server) })));
        assert_eq!(server.recorder().last().unwrap().user.as_deref(), Some("system:anonymous"));
    }
}

#[test]
fn the_proxy_of_the_request_is_used() {
    let server = server();
    let name = "api.nowhere.invalid";
    let proxy = Proxy::setup(Kind::Http).name(name, server.address()).start().unwrap();
    let mut cluster = cluster(&server);
    cluster["server"] = format!("https://{name}:6443").into();
    cluster["tls-server-name"] = "localhost".into();
    cluster["proxy-url"] = proxy.url().into();
    for version in VERSIONS {
        assert_answered(&ask(version, &json!({ "cluster": cluster })));
    }
    assert_eq!(proxy.targets(), [format!("{name}:6443"), format!("{name}:6443")]);
}

#[test]
fn a_request_without_a_cluster_fails_and_says_what_to_set() {
    for version in VERSIONS {
        let output = ask(version, &json!({ "interactive": false }));
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("names no cluster"), "{stderr}");
        assert!(stderr.contains("hint: set `provideClusterInfo: true`"), "{stderr}");
    }
}
