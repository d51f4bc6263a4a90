//! The real kubectl as the judge of the server.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{io::Write, process::Stdio};

use common::kubectl::{Kubectl, minor, pod, with_certificate, with_token};
use keyward_testing::server::Server;
use serde_json::json;

#[test]
fn a_token_or_a_certificate_lets_kubectl_in_and_nothing_else_does() {
    let (_server, kubectl) = with_token();
    assert_eq!(kubectl.prints(&["get", "--raw", "/healthz"]), "ok");
    let (_server, kubectl) = with_certificate();
    assert_eq!(kubectl.prints(&["get", "--raw", "/healthz"]), "ok");
    let server = Server::setup().start().unwrap();
    let kubectl = Kubectl::new(&server, &json!({ "token": "bad" }));
    let output = kubectl.run(&["get", "pods"]);
    assert!(!output.status.success());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("must be logged in"), "{message}");
}

#[test]
fn whoami_names_the_user_and_its_groups() {
    for ((_server, kubectl), name, group) in
        [(with_token(), "anna", "dev"), (with_certificate(), "carla", "ops")]
    {
        let seen = kubectl.json(&["get", "--raw", "/whoami"]);
        assert_eq!(seen["username"], name);
        assert_eq!(seen["groups"], json!([group, "system:authenticated"]));
        let seen = kubectl.json(&["get", "--raw", "/whoami", "--as", "dora"]);
        assert_eq!(seen["username"], "dora");
        assert_eq!(kubectl.prints(&["auth", "can-i", "get", "pods"]), "yes\n");
        // Older ones do not have the command.
        if minor() >= 28 {
            let review = kubectl.json(&["auth", "whoami", "-o", "json"]);
            assert_eq!(review["status"]["userInfo"]["username"], name);
        }
    }
}

#[test]
fn objects_are_applied_read_changed_and_deleted() {
    let (server, kubectl) = with_token();
    let config = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "settings" }, "data": { "key": value },
        })
    };
    let file = kubectl.file("one.json", &config("one"));
    assert_eq!(kubectl.prints(&["apply", "-f", &file]), "configmap/settings created\n");
    assert_eq!(kubectl.prints(&["apply", "-f", &file]), "configmap/settings unchanged\n");
    let file = kubectl.file("two.json", &config("two"));
    assert_eq!(kubectl.prints(&["apply", "-f", &file]), "configmap/settings configured\n");
    let read = kubectl.json(&["get", "configmap", "settings", "-o", "json"]);
    assert_eq!(read["data"]["key"], "two");
    let file = kubectl.file("three.json", &config("three"));
    kubectl.prints(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    assert_eq!(server.store().all("configmaps")[0]["data"]["key"], "three");
    assert!(kubectl.prints(&["get", "cm"]).contains("settings"));
    kubectl.prints(&["delete", "configmap", "settings"]);
    assert!(server.store().all("configmaps").is_empty());
    let output = kubectl.run(&["get", "configmap", "settings"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "Error from server (NotFound): configmaps \"settings\" not found\n");
}

#[test]
fn pods_of_a_label_are_listed_labelled_awaited_and_deleted() {
    let (server, kubectl) = with_certificate();
    for name in ["a", "b"] {
        let file = kubectl.file(name, &pod(name));
        kubectl.prints(&["create", "-f", &file]);
    }
    let names = ["get", "pods", "-o", "name"];
    assert_eq!(kubectl.prints(&names), "pod/a\npod/b\n");
    assert_eq!(kubectl.prints(&["get", "pods", "-l", "app=b", "-o", "name"]), "pod/b\n");
    kubectl.prints(&["label", "pod", "a", "extra=yes"]);
    assert_eq!(server.store().all("pods")[0]["metadata"]["labels"]["extra"], "yes");
    let space = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "elsewhere" },
    });
    let file = kubectl.file("space", &space);
    kubectl.prints(&["create", "-f", &file]);
    assert_eq!(kubectl.prints(&["get", "pods", "-n", "elsewhere", "-o", "name"]), "");
    kubectl.prints(&["wait", "--for=condition=Ready", "pod/a", "--timeout=20s"]);
    kubectl.prints(&["delete", "pods", "--all"]);
    assert!(server.store().all("pods").is_empty());
}

#[test]
fn a_watch_prints_changes_as_they_come() {
    let (server, kubectl) = with_token();
    server.store().put(&pod("a")).unwrap();
    let mut watch = kubectl.start(&["get", "pods", "-w", "-o", "name"]);
    let mut lines = watch.lines();
    assert_eq!(lines.next().unwrap(), "pod/a");
    server.store().put(&pod("b")).unwrap();
    assert_eq!(lines.next().unwrap(), "pod/b");
    server.store().remove("pods", "default", "a").unwrap();
    assert_eq!(lines.next().unwrap(), "pod/a");
}

#[test]
fn logs_are_followed_to_their_end() {
    let (server, kubectl) = with_certificate();
    server.store().put(&pod("a")).unwrap();
    server.logs().write("default", "a", "one");
    server.logs().write("default", "a", "two");
    assert_eq!(kubectl.prints(&["logs", "a"]), "one\ntwo\n");
    assert_eq!(kubectl.prints(&["logs", "a", "--tail=1"]), "two\n");
    let mut follow = kubectl.start(&["logs", "-f", "a"]);
    let mut lines = follow.lines();
    assert_eq!(lines.next().unwrap(), "one");
    assert_eq!(lines.next().unwrap(), "two");
    server.logs().write("default", "a", "three");
    assert_eq!(lines.next().unwrap(), "three");
    server.logs().end("default", "a");
    assert_eq!(lines.next(), None);
    assert!(follow.0.wait().unwrap().success());
}

#[test]
fn standard_input_is_applied_too() {
    let (server, kubectl) = with_token();
    let mut child = kubectl
        .command(&["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("kubectl is on PATH (Debian package `kubernetes-client`)");
    let text = pod("from-stdin").to_string();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(server.store().all("pods").len(), 1);
}
