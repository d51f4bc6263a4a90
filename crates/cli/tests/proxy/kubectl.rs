//! The real kubectl through the proxy.

use serde_json::json;

use crate::stage::{Stage, pod};

#[test]
fn kubectl_gets_applies_deletes_and_watches() {
    let stage = Stage::new();
    let proxy = stage.proxy(&[]);
    assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "settings" }, "data": { "key": "one" },
    });
    let file = stage.write("object.json", &object.to_string());
    let file = file.to_str().unwrap();
    assert_eq!(proxy.prints(&["apply", "-f", file]), "configmap/settings created\n");
    assert_eq!(proxy.prints(&["apply", "-f", file]), "configmap/settings unchanged\n");
    assert!(proxy.prints(&["get", "configmap"]).contains("settings"));
    proxy.prints(&["delete", "configmap", "settings"]);
    assert!(stage.server.store().all("configmaps").is_empty());

    stage.server.store().put(&pod("a")).unwrap();
    let mut watch = proxy.start(&["get", "pods", "-w", "-o", "name"]);
    let mut lines = watch.lines();
    assert_eq!(lines.next().unwrap(), "pod/a");
    stage.server.store().put(&pod("b")).unwrap();
    assert_eq!(lines.next().unwrap(), "pod/b");
    let record = stage.server.recorder().last().unwrap();
    assert_eq!(record.user.as_deref(), Some("anna"));
}
