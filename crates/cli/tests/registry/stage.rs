//! A directory with a registry, a provider, the bridges, and a puller that knows nothing but the helper.

use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_testing::plugin::example;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    image,
    server::{Server, program},
};

pub(crate) struct Stage {
    // Ended before its directory goes.
    pub(crate) server: Server,
    folder: TempDir,
    /// How long providers may take.
    pub(crate) timeout: &'static str,
}

/// A finished run of skopeo.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

impl Stage {
    /// The registry's only account is `puller` with `s3cr3t-one`; the provider is the example of the
    /// plugin crate.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path(), "puller", "s3cr3t-one");
        let stage = Self { server, folder, timeout: "1m" };
        image::write(&stage.path("source"));
        fs::create_dir(stage.path("bin")).unwrap();
        symlink(example("registry_login"), stage.path("bin/registry_login")).unwrap();
        let installed = Command::new(env!("CARGO_BIN_EXE_keyward"))
            .args(["image", "install"])
            .arg(stage.path("bin"))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(installed.success());
        let args = format!("  args: ['{}']\n", stage.path("logins").display());
        stage.config("registry_login", &stage.server.address(), &args);
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Replaces a program by a script.
    pub(crate) fn script(&self, name: &str, script: &str) {
        self.write("script", &format!("#!/bin/sh\n{script}\n"));
        let done = Command::new("install")
            .args(["-m", "755"])
            .arg(self.path("script"))
            .arg(self.path("script.done"))
            .status()
            .unwrap();
        assert!(done.success());
        fs::rename(self.path("script.done"), self.path(name)).unwrap();
    }

    /// Configures one provider.
    pub(crate) fn config(&self, provider: &str, pattern: &str, more: &str) {
        self.write(
            "providers.yaml",
            &format!(
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n\
                 providers:\n- name: {provider}\n  apiVersion: \
                 credentialprovider.kubelet.k8s.io/v1\n  matchImages: ['{pattern}']\n  \
                 defaultCacheDuration: 1m\n{more}"
            ),
        );
    }

    /// What the provider hands out for the registry.
    pub(crate) fn login(&self, user: &str, password: &str, end: &str) {
        self.write("logins", &format!("{} {user} {password} {end}\n", self.server.address()));
    }

    pub(crate) fn push(&self) -> Ran {
        self.push_as(&self.helper())
    }

    /// Pushes with another configuration of docker.
    pub(crate) fn push_as(&self, docker: &str) -> Ran {
        let to = format!("docker://{}/team/app:1", self.server.address());
        let from = format!("oci:{}", self.path("source").display());
        self.skopeo(docker, &["--dest-cert-dir"], &[&from, &to])
    }

    pub(crate) fn pull(&self) -> Ran {
        let _ = fs::remove_dir_all(self.path("pulled"));
        let from = format!("docker://{}/team/app:1", self.server.address());
        let to = format!("oci:{}", self.path("pulled").display());
        self.skopeo(&self.helper(), &["--src-cert-dir"], &[&from, &to])
    }

    /// The digests of what was pulled.
    pub(crate) fn pulled(&self) -> Vec<String> {
        image::blobs(&self.path("pulled"))
    }

    /// The digests of what is pushed.
    pub(crate) fn source(&self) -> Vec<String> {
        image::blobs(&self.path("source"))
    }

    fn helper(&self) -> String {
        json!({ "credHelpers": { self.server.address(): "keyward" } }).to_string()
    }

    fn skopeo(&self, docker: &str, flags: &[&str], words: &[&str]) -> Ran {
        self.write("auth.json", docker);
        let mut command = program("skopeo", "skopeo");
        command.args(["--insecure-policy", "copy", "--preserve-digests", "--authfile"]);
        command.arg(self.path("auth.json"));
        for flag in flags {
            command.arg(flag).arg(self.path("trust"));
        }
        let output = command
            .args(words)
            .env_clear()
            .env("HOME", self.folder.path())
            // Tests count runs, whatever the tester's agent has.
            .env("KEYWARD_AGENT", "off")
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()))
            .env("KEYWARD_IMAGE_CONFIG", self.path("providers.yaml"))
            .env("KEYWARD_IMAGE_BIN_DIR", self.path("bin"))
            .env("KEYWARD_IMAGE_TIMEOUT", self.timeout)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        Ran { status: output.status, said: String::from_utf8(said).unwrap() }
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn good(&self) {
        assert!(self.status.success(), "{}", self.said);
    }

    #[track_caller]
    pub(crate) fn fails_with(&self, cause: &str) {
        assert!(!self.status.success(), "it went well: {}", self.said);
        assert!(self.said.contains(cause), "no `{cause}` in: {}", self.said);
    }
}

pub(crate) fn base64(text: &str) -> String {
    STANDARD.encode(text)
}
