//! A directory with a plugin and a kubeconfig in it, and a clock in the hand.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_host::{
    Draft, Error, Kubeconfig, NoopObserver, Observer, Overrides, Plan, PlanSettings, Source,
    Sources, Target, rules::Rules,
};
use keyward_process::{
    clock::ManualClock,
    surroundings::{Fixed, Surroundings},
};

pub(crate) const NOW: &str = "2026-01-01T00:00:00Z";

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) settings: PlanSettings,
    pub(crate) rules: Rules,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) stdin_is_terminal: bool,
    /// The user's entry, but for `exec`.
    pub(crate) user: String,
    /// What the `exec` block has besides version, command and mode.
    pub(crate) exec: String,
    pub(crate) version: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) command: String,
    pub(crate) server: &'static str,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            clock: Arc::new(ManualClock::new(NOW.parse().expect("a time"))),
            settings: PlanSettings::default(),
            rules: Rules::default(),
            vars: Vec::new(),
            stdin_is_terminal: false,
            user: String::new(),
            exec: String::new(),
            version: "v1",
            mode: "Never",
            command: "plug".into(),
            server: "https://127.0.0.1:6443",
        }
    }

    /// A stage whose plugin is this shell script. `$COUNT` is a file with a line for each run.
    pub(crate) fn with_plugin(script: &str) -> Self {
        let stage = Self::new();
        stage.write_plugin(script);
        stage
    }

    pub(crate) fn write_plugin(&self, script: &str) {
        let count = self.path("count");
        let path = self.path("bin/plug");
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        let text =
            format!("#!/bin/sh\nCOUNT='{}'\necho run >>\"$COUNT\"\n{script}\n", count.display());
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("marked");
    }

    /// A stage whose plugin answers this status.
    pub(crate) fn answering(status: &str) -> Self {
        Self::with_plugin(&answer("v1", status))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).expect("written");
        path
    }

    /// How often the plugin ran.
    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.path("count")).map_or(0, |text| text.lines().count())
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut vars = vec![("PATH".into(), path.into())];
        vars.extend(self.vars.iter().map(|(k, v)| (k.into(), v.into())));
        Surroundings::fixed(Fixed {
            vars,
            cwd: self.folder.path().to_owned(),
            stdin_is_terminal: self.stdin_is_terminal,
            ..Fixed::default()
        })
    }

    /// The user with the plugin.
    pub(crate) fn target(&self) -> Target {
        let exec = format!(
            "    exec:\n      apiVersion: client.authentication.k8s.io/{}\n      command: {}\n      interactiveMode: {}\n{}",
            self.version, self.command, self.mode, self.exec
        );
        self.resolve(&exec)
    }

    /// The user as [`Stage::user`] has it, without a plugin.
    pub(crate) fn plain_target(&self) -> Target {
        self.resolve("")
    }

    fn resolve(&self, exec: &str) -> Target {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
             clusters:\n- name: c\n  cluster:\n    server: {}\n\
             contexts:\n- name: x\n  context: {{cluster: c, user: prod}}\n\
             users:\n- name: prod\n  user:\n    extensions: []\n{}{exec}",
            self.server, self.user
        );
        let file = self.file("config", &text);
        let surroundings = self.surroundings();
        Kubeconfig::load(&surroundings, Some(&file))
            .and_then(|config| config.resolve(&Overrides::default(), &surroundings))
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    pub(crate) fn draft(&self, target: Target) -> Draft {
        Draft::new(target, &self.rules, &self.surroundings(), self.settings.clone())
    }

    pub(crate) fn plan(&self) -> Result<Plan, Error> {
        self.draft(self.target()).finish()
    }

    pub(crate) fn sources(&self, observer: Arc<dyn Observer>) -> Sources {
        Sources::new(Arc::clone(&self.clock) as _, observer)
    }

    /// The source of the plugin's user.
    pub(crate) fn source(&self) -> Source {
        self.sources(Arc::new(NoopObserver))
            .open(&self.plan().unwrap_or_else(|error| panic!("{error:#}")))
    }

    /// One attempt to get a credential that has to fail.
    pub(crate) fn failure(&self) -> Error {
        self.source().credential_blocking().map(drop).expect_err("it has to fail")
    }
}

/// A shell command that prints an answer.
pub(crate) fn answer(version: &str, status: &str) -> String {
    format!(
        "printf '%s\\n' '{{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/{version}\",\"status\":{status}}}'"
    )
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
