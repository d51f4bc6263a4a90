//! The real kubectl, with a home of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use serde_json::{Value, json};

/// A kubectl with a home of its own.
pub struct Kubectl {
    home: tempfile::TempDir,
}

impl Kubectl {
    pub fn new(server: &Server, user: &Value) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("config"), server.kubeconfig(user)).unwrap();
        Self { home }
    }

    /// The directory that is its home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&kubectl::installed().path);
        command
            .args(args)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("config"))
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What it prints; it must end well.
    pub fn prints(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.prints(args)).unwrap()
    }

    pub fn file(&self, name: &str, value: &Value) -> String {
        let path: PathBuf = self.home.path().join(name);
        fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running(self.command(args).stdout(Stdio::piped()).spawn().unwrap())
    }
}

/// A kubectl that runs on; ended on drop.
pub struct Running(pub Child);

impl Running {
    pub fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let stdout = self.0.stdout.take().unwrap();
        BufReader::new(stdout).lines().map(Result::unwrap)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The minor version of this kubectl.
pub fn minor() -> u32 {
    kubectl::installed().minor
}

pub fn with_token() -> (Server, Kubectl) {
    let server = Server::setup().commands().start().unwrap();
    server.users().token("good", User::new("anna").group("dev"));
    let kubectl = Kubectl::new(&server, &json!({ "token": "good" }));
    (server, kubectl)
}

pub fn with_certificate() -> (Server, Kubectl) {
    let server = Server::setup().commands().start().unwrap();
    let issued = server.authority().client("carla").group("ops").issue().unwrap();
    let user = json!({
        "client-certificate-data": STANDARD.encode(issued.certificate_pem()),
        "client-key-data": STANDARD.encode(issued.key_pem()),
    });
    let kubectl = Kubectl::new(&server, &user);
    (server, kubectl)
}

pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    })
}
