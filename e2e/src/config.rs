//! Kubeconfigs for the cluster.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_testing::authority::Issued;
use serde_json::{Value, json};

use crate::Outcome;

/// A kubeconfig with one context. JSON is YAML enough.
pub fn text(server: &str, authority: &str, user: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "e2e", "cluster": {
            "server": server,
            "certificate-authority-data": BASE64_STANDARD.encode(authority),
        } }],
        "users": [{ "name": "e2e", "user": user }],
        "contexts": [{ "name": "e2e", "context": { "cluster": "e2e", "user": "e2e" } }],
        "current-context": "e2e",
    })
    .to_string()
}

/// Writes it to a file of its own that only we can read.
pub fn write(folder: &Path, text: &str) -> Outcome<PathBuf> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let path = folder.join(format!("config-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    private(&path, text)?;
    Ok(path)
}

/// Writes a file that only we can read.
pub fn private(path: &Path, text: &str) -> Outcome<()> {
    fs::write(path, "")?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    fs::write(path, text)?;
    Ok(())
}

/// The user of a client certificate.
pub fn certificate(issued: &Issued) -> Value {
    json!({
        "client-certificate-data": BASE64_STANDARD.encode(issued.certificate_pem()),
        "client-key-data": BASE64_STANDARD.encode(issued.key_pem()),
    })
}

/// The user of an exec plugin that nobody attends.
pub fn exec(version: &str, command: &Path, args: &[&str], env: &[(&str, &str)]) -> Value {
    let env: Vec<Value> =
        env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
    json!({ "exec": {
        "apiVersion": format!("client.authentication.k8s.io/{version}"),
        "command": command,
        "args": args,
        "env": env,
        "interactiveMode": "Never",
    } })
}
