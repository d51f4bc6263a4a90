//! A plugin whose answers and failures a test chooses, and a client on top of it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyward::{Client, client::Builder};
use keyward_host::{
    Kubeconfig, Overrides, Plan, Source, Sources, Surroundings, Target, clock::HandClock,
    observer::Nobody, plan, rules::Rules,
};
use keyward_testing::{authority::Issued, server::Server};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for a busy machine; only a hang gets there.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

/// Counts its runs, keeps what it was told, waits where it is told to, prints its answer.
const SCRIPT: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo run >>"$here/runs"
printf %s "$KUBERNETES_EXEC_INFO" >"$here/told"
while [ -e "$here/hold" ]; do sleep 0.02; done
[ -e "$here/fail" ] && exit 1
exec cat "$here/answer"
"#;

/// A real program in a folder of its own.
pub(crate) struct Plugin {
    folder: TempDir,
    version: &'static str,
}

impl Plugin {
    pub(crate) fn new() -> Self {
        Self::speaking("client.authentication.k8s.io/v1")
    }

    pub(crate) fn speaking(version: &'static str) -> Self {
        let folder = TempDir::new().unwrap();
        let program = folder.path().join("plugin");
        fs::write(&program, SCRIPT).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder, version }
    }

    /// Answers this from now on.
    pub(crate) fn answer(&self, token: Option<&str>, pair: Option<&Issued>) {
        let mut status = json!({});
        if let Some(token) = token {
            status["token"] = token.into();
        }
        if let Some(pair) = pair {
            status["clientCertificateData"] = pair.certificate_pem().into();
            status["clientKeyData"] = pair.key_pem().into();
        }
        let answer = json!({
            "kind": "ExecCredential",
            "apiVersion": self.version,
            "status": status,
        });
        // A run may be reading the old one.
        let new = self.path("new");
        fs::write(&new, answer.to_string()).unwrap();
        fs::rename(new, self.path("answer")).unwrap();
    }

    /// Fails, or does not any more.
    pub(crate) fn fail(&self, fail: bool) {
        self.switch("fail", fail);
    }

    /// Hangs, or does not any more.
    pub(crate) fn hold(&self, hold: bool) {
        self.switch("hold", hold);
    }

    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).map_or(0, |runs| runs.lines().count())
    }

    /// What it was told at its last run.
    pub(crate) fn told(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("told")).unwrap()).unwrap()
    }

    /// The kubeconfig's user.
    pub(crate) fn user(&self) -> Value {
        self.user_in("Never")
    }

    pub(crate) fn user_in(&self, mode: &str) -> Value {
        json!({ "exec": {
            "apiVersion": self.version,
            "command": self.path("plugin"),
            "interactiveMode": mode,
        } })
    }

    fn switch(&self, name: &str, on: bool) {
        if on {
            fs::write(self.path(name), "").unwrap();
        } else {
            let _ = fs::remove_file(self.path(name));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A plugin that hangs must not outlive its test.
impl Drop for Plugin {
    fn drop(&mut self) {
        self.hold(false);
    }
}

/// A registry of its own, with a clock in the hand: time passes when the test says so.
pub(crate) struct Desk {
    pub(crate) clock: Arc<HandClock>,
    pub(crate) sources: Sources,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(HandClock::new(jiff::Timestamp::now()));
        Self { sources: Sources::new(clock.clone(), Arc::new(Nobody)), clock }
    }

    pub(crate) fn source(&self, kubeconfig: &str) -> Source {
        let surroundings = Surroundings::process();
        let plan =
            Plan::new(target(kubeconfig), &Rules::default(), &surroundings, settings()).unwrap();
        self.sources.open(&plan)
    }

    pub(crate) fn client(&self, server: &Server, user: &Value) -> Client {
        self.client_with(server, user, Client::builder())
    }

    pub(crate) fn client_with(&self, server: &Server, user: &Value, builder: Builder) -> Client {
        let target = target(&server.kubeconfig(user));
        builder.plan(settings()).open(&target, &Rules::default(), &self.sources).unwrap()
    }
}

pub(crate) fn target(kubeconfig: &str) -> Target {
    let kubeconfig = Kubeconfig::from_bytes(kubeconfig.as_bytes()).unwrap();
    kubeconfig.resolve(&Overrides::default(), &Surroundings::process()).unwrap()
}

/// As in a daemon: nobody is asked.
fn settings() -> plan::Settings {
    let mut settings = plan::Settings::default();
    settings.person = false;
    settings
}

/// The status of a request, its body read to the end.
pub(crate) async fn status(client: &Client, path: &str) -> u16 {
    let response = within(client.get(path)).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().bytes().await.unwrap();
    status
}

/// Fails instead of hanging.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, future).await.expect("it took for ever")
}

/// Waits for something to become true; fails only if it never does.
pub(crate) async fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let wait = async {
        while !seen() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(GUARD, wait).await.is_ok(), "never saw: {what}");
}

pub(crate) fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}
