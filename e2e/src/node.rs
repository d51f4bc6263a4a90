//! The one node of the cluster: what the API server sees of a kubelet is played by the testing server,
//! with real commands, terminals and ports of this machine.

use std::path::Path;

use keyward_testing::{
    authority::Authority,
    server::{ClientCertificates, Server},
};
use serde_json::{Value, json};

use crate::{Outcome, config};

/// As whom the API server comes to the node.
pub const CALLER: &str = "kube-apiserver-kubelet-client";
/// Where the pods are.
pub const NAMESPACE: &str = "streams";
/// Who alone may reach them.
pub const USER: &str = "system:serviceaccount:default:builder";

const NAME: &str = "loopback";
const GROUP: &str = "rbac.authorization.k8s.io";

/// The node, running.
pub struct Node {
    /// Writes the logs, has the ports, and knows what it was asked.
    pub kubelet: Server,
}

impl Node {
    /// Starts the kubelet, and writes what the API server needs to come to it.
    pub fn start(folder: &Path) -> Outcome<Self> {
        // Not the cluster's: of those whom that one signs, nobody may come here.
        let authority = Authority::new("keyward-e2e-kubelets")?;
        let caller = authority.client(CALLER).issue()?;
        let file = |name: &str, text: &str| config::private(&folder.join(name), text);
        file("kubelets.crt", authority.pem())?;
        file("kubelet-client.crt", caller.certificate_pem())?;
        file("kubelet-client.key", caller.key_pem())?;
        let kubelet = Server::setup()
            .authority(authority.into())
            .certificates(ClientCertificates::Demanded)
            .kubelet()
            .commands()
            .start()?;
        Ok(Self { kubelet })
    }

    /// The node, and a namespace whose pods one user may reach.
    pub fn objects(&self) -> Value {
        let named = |name: &str| json!({ "name": name, "namespace": NAMESPACE });
        json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": { "name": NAME },
                "status": {
                    "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
                    "daemonEndpoints": {
                        "kubeletEndpoint": { "Port": self.kubelet.address().port() },
                    },
                },
            },
            { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } },
            { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("runner") },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": named("reaches"),
                "rules": [
                    { "apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"] },
                    {
                        "apiGroups": [""],
                        "resources": ["pods/exec", "pods/attach", "pods/portforward"],
                        "verbs": ["get", "create"],
                    },
                ],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": named("reaches"),
                "subjects": [{ "kind": "User", "apiGroup": GROUP, "name": USER }],
                "roleRef": { "kind": "Role", "apiGroup": GROUP, "name": "reaches" },
            },
        ] })
    }
}

/// A pod on the node, and its status: no kubelet will ever report it.
pub fn pod(name: &str) -> (Value, Value) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "nodeName": NAME,
            "serviceAccountName": "runner",
            "automountServiceAccountToken": false,
            "containers": [{ "name": "app", "image": "registry.example/app:1", "stdin": true }],
        },
    });
    let status = json!({ "status": {
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{
            "name": "app",
            "image": "registry.example/app:1",
            "imageID": "registry.example/app@sha256:0",
            "ready": true,
            "restartCount": 0,
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        }],
    } });
    (pod, status)
}
