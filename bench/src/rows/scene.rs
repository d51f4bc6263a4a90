//! A kubeconfig whose user is a shell plugin, and the server it leads to.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use keyward_testing::server::{Server, Setup, User};
use serde_json::{Value, json};

/// What the plugin answers and the server accepts.
pub const TOKEN: &str = "a-token-as-long-as-the-short-ones-of-real-providers-are";

/// A kubeconfig and its plugin.
pub struct Folder {
    /// Removed when dropped.
    place: tempfile::TempDir,
    /// The kubeconfig.
    pub config: PathBuf,
    /// The plugin.
    pub plugin: PathBuf,
}

impl Folder {
    /// The server that nobody asks.
    pub const SERVER: &str = "https://127.0.0.1:1";

    /// For a server that nobody asks.
    pub fn new() -> Self {
        Self::running(&PLUGIN.replace("TOKEN", TOKEN))
    }

    /// A directory whose plugin is this script.
    pub fn running(script: &str) -> Self {
        Self::with(script, |user| {
            json!({
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "bench",
                "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": "bench" } }],
                "clusters": [{ "name": "bench", "cluster": { "server": Self::SERVER } }],
                "users": [{ "name": "bench", "user": user }],
            })
            .to_string()
        })
    }

    fn with(script: &str, config: impl FnOnce(&Value) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let plugin = folder.path().join("plugin");
        write(&plugin, script);
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).expect("a mode");
        let user = json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": &plugin,
            "interactiveMode": "Never",
        } });
        let path = folder.path().join("config");
        write(&path, &config(&user));
        Self { place: folder, config: path, plugin }
    }

    /// The kubeconfig's text.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.config).expect("it was written by us")
    }
}

/// A server that accepts the plugin's token.
pub struct Scene {
    pub server: Server,
    pub folder: Folder,
    /// The server's authority, as a file for curl.
    pub authority: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        Self::of(Server::setup())
    }

    /// One that speaks HTTP/1.1 alone.
    pub fn old() -> Self {
        Self::of(Server::setup().only_http1())
    }

    fn of(setup: Setup) -> Self {
        // One thread for the server, one for the client: as many as the smallest machine has.
        let server = setup.records(0).workers(1).start().expect("a server");
        server.users().token(TOKEN, User::new("bench"));
        let script = PLUGIN.replace("TOKEN", TOKEN);
        let folder = Folder::with(&script, |user| server.kubeconfig(user));
        let authority = folder.place.path().join("ca.pem");
        write(&authority, server.authority().pem());
        Self { server, folder, authority }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file in a temporary folder");
}

/// Answers with an expiry, as the plugins of all clouds do.
const PLUGIN: &str = r#"#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"TOKEN","expirationTimestamp":"2099-01-01T00:00:00Z"}}'
"#;
