//! A healthy setup for `keyward doctor`, which tests then break.

use std::{any::Any, fs, os::unix::fs::symlink, path::PathBuf, process::Command};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_testing::{
    kubectl,
    server::{Server, User},
};

use crate::stage::{Ran, Run as _, Stage, gives};

/// Every secret of a scene has this in it; no output may.
pub(crate) const MARK: &str = "MARKED";

/// The token that the server accepts.
pub(crate) const TOKEN: &str = "MARKED-token";

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) server: Server,
    /// Variables of the program, beside those of the stage.
    pub(crate) env: Vec<(String, String)>,
    /// What must live as long as the scene.
    pub(crate) kept: Vec<Box<dyn Any>>,
}

impl Scene {
    /// A context `ctx-blue` whose plugin `corp-login` returns a good token.
    pub(crate) fn healthy() -> Self {
        let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
        server.users().token(TOKEN, User::new("anna").group("dev"));
        symlink(&kubectl::installed().path, stage.path("bin/kubectl")).unwrap();
        symlink(env!("CARGO_BIN_EXE_keyward"), stage.path("bin/keyward")).unwrap();
        let scene = Self { stage, server, env: Vec::new(), kept: Vec::new() };
        scene.stage.plugin("corp-login", &gives(TOKEN));
        scene.user(&exec("corp-login", ""));
        scene
    }

    /// Writes the kubeconfig with this user (YAML, indented by 4).
    pub(crate) fn user(&self, user: &str) {
        self.write(&self.cluster(""), user);
    }

    /// The cluster's YAML with these lines more.
    pub(crate) fn cluster(&self, more: &str) -> String {
        let authority = STANDARD.encode(self.server.authority().pem());
        format!(
            "    server: {}\n    certificate-authority-data: {authority}\n{more}",
            self.server.url()
        )
    }

    /// Writes the kubeconfig with this cluster and user (YAML, indented by 4).
    pub(crate) fn write(&self, cluster: &str, user: &str) {
        let cluster = cluster.trim_end();
        let user = user.trim_end();
        self.stage.kubeconfig(&format!(
            "apiVersion: v1
kind: Config
current-context: ctx-blue
contexts:
- name: ctx-blue
  context:
    cluster: cl-green
    user: us-red
clusters:
- name: cl-green
  cluster:
{cluster}
users:
- name: us-red
  user:
{user}
"
        ));
    }

    /// Replaces a text of the kubeconfig.
    pub(crate) fn replace(&self, old: &str, new: &str) {
        let config = self.stage.read("home/.kube/config");
        assert!(config.contains(old), "{config}");
        self.stage.kubeconfig(&config.replace(old, new));
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    /// Makes a directory below the stage.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.stage.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Runs `keyward doctor` with these words.
    pub(crate) fn doctor(&self, words: &str) -> Ran {
        let mut command = self.stage.command(["doctor"]);
        command.args(words.split_whitespace());
        self.surround(&mut command).ran()
    }

    /// Runs a line of a shell, as somebody would who was told to, and then `keyward doctor` in the same
    /// shell.
    pub(crate) fn fixed_by(&self, line: &str, words: &str) -> Ran {
        let doctor = format!("exec keyward doctor {words}");
        let script = if line.starts_with("keyward doctor") {
            line.to_owned()
        } else {
            format!("{{ {line}; }} >/dev/null || exit 99\n{doctor}")
        };
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &script])
            .env_clear()
            .env("HOME", self.stage.path("home"))
            .env("PATH", self.stage.search_path())
            .env("KEYWARD_AGENT", "off")
            .current_dir(self.stage.path(""));
        self.surround(&mut command).ran()
    }

    fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("XDG_RUNTIME_DIR", self.directory("run"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)))
    }
}

/// A user with this plugin in v1, and these lines more (indented by 6).
pub(crate) fn exec(command: &str, more: &str) -> String {
    exec_in("v1", command, &format!("      interactiveMode: Never\n{more}"))
}

/// A user with this plugin.
pub(crate) fn exec_in(version: &str, command: &str, more: &str) -> String {
    format!(
        "    exec:
      apiVersion: client.authentication.k8s.io/{version}
      command: {command}
      env:
      - name: CORP_KEY
        value: MARKED-variable
{more}"
    )
}
