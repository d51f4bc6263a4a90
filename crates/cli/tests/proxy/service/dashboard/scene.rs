//! A background proxy in use: contexts with plugins that work and fail, streams, and a grant.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Stdio},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_proxy::{
    Service,
    grants::{NewGrant, Rules, create},
};
use keyward_testing::server::User;
use serde_json::{Value, json};

use super::super::stage::{Stage, eventually, prints};

/// What a plugin may say in its error, and nobody may see.
pub(super) const SECRET: &str = "s3cr3t-of-the-plugin-77";

pub(super) struct Scene {
    pub(super) stage: Stage,
    pub(super) kubeconfig: PathBuf,
    clients: Vec<Child>,
}

impl Scene {
    pub(super) fn new() -> Self {
        let names = ["prod-eu", "prod-us", "staging", "dev", "lab", "archive"];
        let stage = Stage::new(&names);
        let mut config = stage.config(&names);
        for (user, minutes) in [("prod-eu", 55), ("prod-us", 55), ("staging", 9 * 60)] {
            set_user(&mut config, user, &good_plugin(user, minutes));
        }
        let failing = format!(
            "echo 'Error: the session of <b>ann</b> has ended, token {SECRET}' >&2; exit 1"
        );
        let mut lab = plugin(&failing);
        lab["exec"]["env"] = json!([{ "name": "CLOUD_TOKEN", "value": SECRET }]);
        set_user(&mut config, "lab", &lab);
        set_user(&mut config, "archive", &plugin("touch ~/asked; exit 1"));
        for (name, server) in &stage.servers {
            let user = User::new(&format!("{name}:ann")).group("developers").group("on-call");
            server.users().token(&format!("token-of-{name}"), user);
        }
        stage.write_own(&config.to_string());
        let kubeconfig = stage.start(&[]);
        Self { stage, kubeconfig, clients: Vec::new() }
    }

    /// Requests, errors and streams.
    pub(super) fn use_it(&mut self) {
        for context in ["prod-eu", "prod-us", "staging", "dev"] {
            for _ in 0..2 {
                self.get(context);
            }
        }
        let mut failing = self.kubectl(&["--context", "lab", "get", "--raw", "/healthz"]);
        assert!(!failing.output().unwrap().status.success());
        for (context, kind) in [("dev", "pods"), ("prod-eu", "configmaps")] {
            let mut watch = self.kubectl(&["--context", context, "get", kind, "-w", "-o", "name"]);
            self.clients.push(watch.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        }
        eventually("the watches are open", || {
            let status = self.stage.status();
            let contexts = status[0]["contexts"].as_array().unwrap().iter();
            contexts.filter(|one| one["streams"].as_array().unwrap().len() == 1).count() == 2
        });
    }

    /// A grant that was used.
    pub(super) fn grant(&self, name: &str) {
        let vars = vec![("HOME".into(), self.stage.home.path().into())];
        let surroundings = Surroundings::fixed(Fixed { vars, ..Fixed::default() });
        let service = Service::of_kubeconfig(&surroundings, &[self.stage.path(".kube/config")]);
        let rules = Rules {
            read_only: true,
            namespaces: vec!["default".to_owned()],
            allow: Vec::new(),
            as_user: None,
            as_groups: Vec::new(),
        };
        let new = NewGrant {
            name: name.to_owned(),
            context: "dev".to_owned(),
            rules,
            ttl: Duration::from_secs(8 * 3600),
            socket: false,
        };
        let (_, kubeconfig) = create(&service.unwrap(), &surroundings, &new).unwrap();
        eventually("the grant is in force", || {
            let mut get = self.stage.kubectl(&kubeconfig, &["get", "pods", "-n", "default"]);
            get.output().unwrap().status.success()
        });
        let denied = ["delete", "pod", "web-0", "-n", "default"];
        assert!(!self.stage.kubectl(&kubeconfig, &denied).output().unwrap().status.success());
    }

    fn kubectl(&self, args: &[&str]) -> std::process::Command {
        self.stage.kubectl(&self.kubeconfig, args)
    }

    pub(super) fn get(&self, context: &str) {
        let args = ["--context", context, "get", "--raw", "/healthz"];
        assert_eq!(prints(&mut self.kubectl(&args)), "ok");
    }

    /// A new link to the dashboard.
    pub(super) fn link(&self) -> String {
        self.stage.keyward_prints(&["proxy", "dashboard", "--print"]).trim_end().to_owned()
    }

    /// Whether the plugin of the context `archive` has run.
    pub(super) fn has_asked(&self) -> bool {
        fs::exists(self.stage.path("asked")).unwrap()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for client in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

fn plugin(script: &str) -> Value {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "sh", "args": ["-c", script],
    });
    json!({ "exec": exec })
}

/// A plugin that gives a token for so long.
fn good_plugin(user: &str, minutes: i64) -> Value {
    let end = Timestamp::now() + SignedDuration::from_mins(minutes);
    let answer = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": format!("token-of-{user}"), "expirationTimestamp": end.to_string() },
    });
    plugin(&format!("echo '{answer}'"))
}

fn set_user(config: &mut Value, name: &str, user: &Value) {
    let users = config["users"].as_array_mut().unwrap();
    users.iter_mut().find(|one| one["name"] == name).unwrap()["user"] = user.clone();
}
