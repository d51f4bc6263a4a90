//! What is scraped: proxies, agents, and a program that uses the libraries. Each has its own fault.

use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use keyward_agent::registration::{Registration, Registrations};
use keyward_host::{
    Metrics,
    kubeconfig::{ApiVersion, Exec, InteractiveMode},
};
use keyward_image::{Config, Images, Settings};
use keyward_process::{
    clock::SystemClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_testing::{
    plugin,
    script::Script,
    server::{Server, User},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Running;
use crate::{
    stage::{Proxy, Stage},
    wire::Card,
};

#[allow(dead_code, reason = "its `main` sends requests with the tester's kubeconfig")]
#[path = "../../../../keyward/examples/metrics.rs"]
pub(super) mod example;

/// A proxy with its own server and plugin.
pub(super) struct Case {
    pub(super) stage: Stage,
    pub(super) script: Script,
    pub(super) proxy: Proxy,
    /// The URL to scrape.
    pub(super) metrics: String,
}

impl Case {
    /// A proxy whose plugin has run once and gave the token `one`.
    pub(super) fn new() -> Self {
        let script = Script::new();
        let user = script.user();
        Self::of(script, &user)
    }

    /// A proxy for this user of a kubeconfig, who may have a plugin other than the script.
    pub(super) fn of(script: Script, user: &Value) -> Self {
        Self::at(Server::setup().start().unwrap(), script, user)
    }

    pub(super) fn at(server: Server, script: Script, user: &Value) -> Self {
        script.answer(Some("one"), None);
        server.users().token("one", User::new("anna"));
        let stage = Stage::of(server, user);
        fs::create_dir(stage.path(".kube")).unwrap();
        let proxy = stage.proxy(&["--admin-listen", "127.0.0.1:0"]);
        let metrics = proxy.before.lines().find_map(|line| line.strip_prefix("metrics "));
        let case = Self { metrics: metrics.unwrap().to_owned(), stage, script, proxy };
        assert!(case.card().get("/version", "").starts_with("HTTP/1.1 200 "));
        case
    }

    pub(super) fn card(&self) -> Card {
        Card::read(&self.proxy.kubeconfig, 0)
    }

    /// Sends a request that the proxy refuses.
    pub(super) fn ask_as_somebody_else(&self) {
        let answer = self.card().get("/version", "Impersonate-User: dora\r\n");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }

    /// Makes the server reject the token that the proxy has, so that the plugin runs again.
    pub(super) fn revoke(&self) {
        assert!(self.stage.server.users().revoke_token("one"));
    }

    /// Makes the server accept one more token.
    pub(super) fn accept(&self, token: &str) {
        self.stage.server.users().token(token, User::new("anna"));
    }
}

/// An agent, and the process that serves its metrics.
pub(super) struct AgentCase {
    dir: TempDir,
    pub(super) agent: Running,
    _exporter: Running,
    pub(super) metrics: String,
}

impl AgentCase {
    pub(super) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("kw").tempdir().unwrap();
        fs::DirBuilder::new().mode(0o700).create(dir.path().join("run")).unwrap();
        let token = r#"{"token":"t0ken","expirationTimestamp":"2099-01-01T00:00:00Z"}"#;
        let kind = r#""kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1""#;
        plugin_user(&dir, "config", &format!("echo '{{{kind},\"status\":{token}}}'\n"));
        plugin_user(&dir, "login", "echo see https://idp.example >&2\nexit 1\n");
        let (agent, _) = Running::start(&mut command(&dir, plugin::agent()), "listening on ");
        let mut exporter = command(&dir, Path::new(env!("CARGO_BIN_EXE_keyward")));
        exporter.args(["agent", "metrics", "--listen", "127.0.0.1:0"]);
        let (exporter, metrics) = Running::start(&mut exporter, "metrics ");
        Self { dir, agent, _exporter: exporter, metrics }
    }

    /// Gets the credential of a kubeconfig through the agent: `config` works, `login` needs a person.
    pub(super) fn ask(&self, kubeconfig: &str) {
        let mut asks = command(&self.dir, Path::new(env!("CARGO_BIN_EXE_keyward")));
        asks.arg("credential").env("KUBECONFIG", self.dir.path().join(kubeconfig));
        let output = asks.output().unwrap();
        assert_eq!(output.status.success(), kubeconfig == "config", "{output:?}");
    }
}

fn vars(dir: &TempDir) -> [(&'static str, PathBuf); 3] {
    let path = dir.path();
    [("HOME", path.into()), ("XDG_RUNTIME_DIR", path.join("run")), ("PATH", "/usr/bin:/bin".into())]
}

fn command(dir: &TempDir, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(vars(dir)).current_dir("/").stdin(Stdio::null());
    command
}

/// Writes a kubeconfig whose plugin is this script, and registers it as `keyward wrap` would.
fn plugin_user(dir: &TempDir, name: &str, script: &str) {
    let path = dir.path().join(format!("{name}.sh"));
    fs::write(&path, script).unwrap();
    let args = [path.to_str().unwrap().to_owned()];
    let (command, api_version) = ("/bin/sh", "client.authentication.k8s.io/v1");
    let kubeconfig = dir.path().join(name);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{ "name": name, "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": name, "user": { "exec": {
            "apiVersion": api_version, "command": command, "args": args, "interactiveMode": "Never",
        } } }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
    });
    fs::write(&kubeconfig, config.to_string()).unwrap();
    let vars = vars(dir).map(|(name, value)| (name.into(), value.into())).to_vec();
    let surroundings = Surroundings::fixed(Fixed { vars, cwd: "/".into(), ..Fixed::default() });
    let exec = Exec {
        command: command.to_owned(),
        args: args.to_vec(),
        api_version: ApiVersion::parse(api_version),
        interactive_mode: InteractiveMode::Never,
        ..Exec::default()
    };
    let registration = Registration::new(&exec, &kubeconfig, name, &surroundings).unwrap();
    let directory = Registrations::directory(&surroundings).unwrap();
    Registrations::new(directory).add(&registration).unwrap();
}

/// An image credential provider, used by a program with metrics.
pub(super) struct ImageCase {
    dir: TempDir,
    images: Arc<Images>,
    config: Config,
    pub(super) counts: Arc<Metrics>,
}

impl ImageCase {
    pub(super) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Image",
            "auth": { "registry.example": { "username": "u", "password": "p" } },
        });
        let here = dir.path().display();
        let script = format!("#!/bin/sh\n[ -e {here}/fail ] && exit 1\necho '{answer}'\n");
        fs::write(dir.path().join("text"), script).unwrap();
        // Another process writes it, because a file that is open for writing cannot be executed.
        install(&dir.path().join("text"), &dir.path().join("provider"));
        let config = dir.path().join("config.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n\
                    - {name: provider, matchImages: [registry.example], defaultCacheDuration: 1m, \
                    apiVersion: credentialprovider.kubelet.k8s.io/v1}\n";
        fs::write(&config, text).unwrap();
        let config = Config::load(&config).unwrap();
        let counts = Arc::new(Metrics::default());
        let bin_dir = Some(dir.path().into());
        let settings = Settings { bin_dir, retries: Vec::new(), ..Settings::default() };
        let clock = Arc::new(SystemClock);
        let images = Images::new(settings, Surroundings::process(), clock, counts.clone());
        keyward_host::Observer::configured(&*counts, Some("sha256:aa"), None);
        let case = Self { dir, images: Arc::new(images), config, counts };
        assert!(case.ask("first"));
        case
    }

    /// Whether a login for this image was found. Each image is one run of the provider.
    pub(super) fn ask(&self, image: &str) -> bool {
        let image = format!("registry.example/{image}");
        !self.images.lookup(&self.config, &image, None).unwrap().logins.is_empty()
    }

    pub(super) fn fail(&self) {
        fs::write(self.dir.path().join("fail"), "").unwrap();
    }
}

/// Copies a program.
pub(super) fn install(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    assert!(install.args(["-m", "755"]).arg(from).arg(to).status().unwrap().success());
}
