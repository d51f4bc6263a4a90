//! Logs, commands and ports of pods: streams and upgraded connections.

use futures_util::{AsyncBufReadExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use keyward_testing::{
    script::Script,
    server::{Server, User},
};
use kube::{
    Api,
    api::{AttachParams, LogParams},
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Desk, scene, within};

/// A scene with a pod in it.
fn with_pod() -> (Server, Script, Desk, Api<Pod>) {
    let (server, plugin, desk) = scene();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
        "status": { "phase": "Running" },
    });
    server.store().put(&pod).unwrap();
    let pods = Api::default_namespaced(desk.client(&server, &plugin.user()));
    (server, plugin, desk, pods)
}

/// Takes the current token back and makes the plugin answer with the next.
fn revoke(server: &Server, plugin: &Script) {
    server.users().revoke_tokens();
    server.users().token("two", User::new("anna"));
    plugin.answer(Some("two"), None);
}

#[tokio::test]
async fn a_log_is_followed_over_a_rotation_of_the_token() {
    let (server, plugin, _desk, pods) = with_pod();
    server.logs().write("default", "web", "first");
    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut lines = within(pods.log_stream("web", &follow)).await.unwrap().lines();
    assert_eq!(within(lines.next()).await.unwrap().unwrap(), "first");

    revoke(&server, &plugin);
    server.logs().write("default", "web", "second");
    assert_eq!(within(lines.next()).await.unwrap().unwrap(), "second");
    let all = within(pods.logs("web", &LogParams::default())).await.unwrap();
    assert_eq!(all, "first\nsecond\n");
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_command_runs_in_a_pod_also_when_the_upgrade_is_refused_first() {
    let (server, plugin, _desk, pods) = with_pod();
    within(pods.list(&kube::api::ListParams::default())).await.unwrap();
    revoke(&server, &plugin);

    let params = AttachParams::default().stdin(true).stderr(false);
    let mut process = within(pods.exec("web", ["cat"], &params)).await.unwrap();
    let (mut stdin, mut stdout) = (process.stdin().unwrap(), process.stdout().unwrap());
    stdin.write_all(b"over there and back").await.unwrap();
    stdin.shutdown().await.unwrap();
    drop(stdin);
    let mut said = String::new();
    within(stdout.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "over there and back");
    within(process.join()).await.unwrap();
    assert_eq!(plugin.runs(), 2);
    assert_eq!(server.counts().status(101), 1);
}

#[tokio::test]
async fn a_port_of_a_pod_is_reached() {
    let (server, plugin, _desk, pods) = with_pod();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.ports().map(80, listener.local_addr().unwrap());
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut reader, mut writer) = stream.split();
        tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    });
    let mut forward = within(pods.portforward("web", &[80])).await.unwrap();
    let mut port = forward.take_stream(80).unwrap();
    port.write_all(b"hello").await.unwrap();
    let mut said = [0; 5];
    within(port.read_exact(&mut said)).await.unwrap();
    assert_eq!(&said, b"hello");
    drop(port);
    within(echo).await.unwrap();
    forward.abort();
    assert_eq!(plugin.runs(), 1);
}
