//! A directory with the bridges, and providers for them to ask.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use keyward_testing::plugin;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Stage {
    pub(crate) folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    /// A directory with the bridges, installed as a person does it.
    pub(crate) fn new() -> Self {
        // `keyward` makes a link to it.
        plugin::provider_node();
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(stage.path("bin")).unwrap();
        stage.install(&[]).good();
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub(crate) fn install(&self, flags: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyward"));
        command.args(["image", "install"]).args(flags).arg(self.path("bin"));
        run(&mut command, "")
    }

    /// A program of the directory that is a shell script. Another process writes it, as elsewhere.
    pub(crate) fn script(&self, name: &str, script: &str) {
        let text = self.write(&format!("{name}.txt"), &format!("#!/bin/sh\n{script}\n"));
        let to = self.path("bin").join(name);
        let done = Command::new("install").args(["-m", "755"]).arg(text).arg(to).status();
        assert!(done.unwrap().success());
    }

    /// A provider for a pattern, which answers with one login.
    pub(crate) fn provider(&self, pattern: &str, user: &str) {
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": "Registry",
            "auth": { pattern: { "username": user, "password": "s3cr3t-password" } },
        });
        let log = self.path("asked").display().to_string();
        self.script("provider", &format!("cat >>'{log}'\necho '{answer}'"));
        self.configure(&format!("provider\n  matchImages: ['{pattern}']"));
    }

    pub(crate) fn configure(&self, provider: &str) {
        self.write(
            "providers.yaml",
            &format!(
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n\
                 providers:\n- name: {provider}\n  defaultCacheDuration: 1m\n  apiVersion: \
                 credentialprovider.kubelet.k8s.io/v1\n"
            ),
        );
    }

    pub(crate) fn bridge(&self, name: &str) -> Command {
        self.program(&self.path("bin").join(name))
    }

    pub(crate) fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.folder.path())
            // Tests count runs, whatever the tester's agent has.
            .env("KEYWARD_AGENT", "off")
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("KEYWARD_IMAGE_CONFIG", self.path("providers.yaml"))
            .env("KEYWARD_IMAGE_BIN_DIR", self.path("bin"));
        command
    }

    pub(crate) fn helper(&self, word: &str, server: &str) -> Ran {
        run(self.bridge("docker-credential-keyward").arg(word), server)
    }

    /// Asks a provider as the kubelet does.
    pub(crate) fn ask(&self, name: &str, args: &[&str], image: &str, more: &Value) -> Ran {
        let mut request = json!({
            "kind": "CredentialProviderRequest",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "image": image,
        });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run(self.bridge(name).args(args), &request.to_string())
    }

    /// Asks `keyward-provider-docker` with this `config.json`.
    pub(crate) fn docker(&self, config: &Value, image: &str) -> Ran {
        let path = self.write("docker.json", &config.to_string());
        let args = ["--config", path.to_str().unwrap()];
        self.ask("keyward-provider-docker", &args, image, &json!({}))
    }
}

pub(crate) fn run(command: &mut Command, stdin: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

impl Ran {
    #[track_caller]
    pub(crate) fn good(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        &self.stdout
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.good()).unwrap()
    }

    #[track_caller]
    pub(crate) fn bad(&self, code: i32, why: &str) {
        let said = format!("{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, Some(code), "{said}");
        assert!(said.contains(why), "no `{why}` in: {said}");
        assert!(!said.contains("s3cr3t"), "{said}");
    }
}
