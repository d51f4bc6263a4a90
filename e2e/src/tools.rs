//! The programs that are compared, and how they are run.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use serde_json::Value;
use tokio::process::Command;

use crate::Outcome;

/// Where everything is.
pub struct Tools {
    cache: PathBuf,
    programs: PathBuf,
}

/// What a program did.
pub struct Ran {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
}

impl Tools {
    /// Looks for the programs; an error names the first that is missing.
    pub fn find(cache: &Path) -> Outcome<Self> {
        // Ours are built beside this one.
        let programs = std::env::current_exe()?.parent().unwrap_or(cache).to_owned();
        let tools = Self { cache: cache.to_owned(), programs };
        let needed =
            ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"]
                .map(|n| tools.kubernetes(n));
        let plugins = ["aws", "aws-iam-authenticator", "kubelogin"].map(|n| tools.plugin(n));
        let others =
            [tools.script("provider.mjs"), tools.own("keyward"), tools.own("keyward-providers")];
        let clients = [
            tools.program("helm3", "helm"),
            tools.program("helm4", "helm"),
            tools.program("k9s", "k9s"),
            tools.program("kubectl-old", "kubectl-old"),
            tools.python(),
            tools.client_script("client.mjs"),
        ];
        for path in needed.iter().chain(&plugins).chain(&others).chain(&clients) {
            if !path.is_file() {
                return Err(
                    format!("`{}` is missing\nhint: cargo xtask e2e", path.display()).into()
                );
            }
        }
        Ok(tools)
    }

    /// A program of Kubernetes.
    pub fn kubernetes(&self, name: &str) -> PathBuf {
        self.cache.join("kubernetes").join(name)
    }

    /// A credential plugin written by others.
    pub fn plugin(&self, name: &str) -> PathBuf {
        match name {
            "aws" => self.cache.join("venv/bin/aws"),
            name => self.cache.join(name).join(name),
        }
    }

    /// A script for node, beside the packages it needs.
    pub fn script(&self, name: &str) -> PathBuf {
        self.cache.join("node").join(name)
    }

    /// A client that its authors wrote in Go.
    pub fn program(&self, part: &str, name: &str) -> PathBuf {
        self.cache.join(part).join(name)
    }

    /// The Python that has the Kubernetes clients.
    pub fn python(&self) -> PathBuf {
        self.cache.join("clients-python/bin/python3")
    }

    /// A script for node, beside the Kubernetes client.
    pub fn client_script(&self, name: &str) -> PathBuf {
        self.cache.join("clients-node").join(name)
    }

    /// The class path of the Java clients.
    pub fn java(&self) -> PathBuf {
        let folder = self.cache.join("clients-java");
        format!("{0}/classes:{0}/lib/*", folder.display()).into()
    }

    /// A program of ours.
    pub fn own(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Our container image, as an archive of an OCI layout.
    pub fn image(&self) -> PathBuf {
        self.programs.with_file_name("e2e").join("keyward.oci.tar")
    }

    /// A file of this crate.
    pub fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }
}

/// A command with nothing of the caller's home in it: `home` is where it finds its own.
pub fn command(program: impl AsRef<OsStr>, home: &Path) -> Command {
    let mut command = Command::new(program);
    for name in
        ["KUBECONFIG", "KUBERC", "KUBERNETES_EXEC_INFO", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"]
    {
        command.env_remove(name);
    }
    command.env("HOME", home).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs it to its end.
pub async fn run(command: &mut Command) -> Outcome<Ran> {
    let output = command
        .output()
        .await
        .map_err(|e| format!("cannot start `{}`: {e}", command.as_std().get_program().display()))?;
    Ok(Ran {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs it, and it must succeed. What it printed.
pub async fn succeed(command: &mut Command) -> Outcome<String> {
    let ran = run(command).await?;
    if ran.status.success() {
        return Ok(ran.stdout);
    }
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let args: Vec<_> = command.as_std().get_args().map(OsStr::to_string_lossy).collect();
    Err(format!("`{name} {}` failed ({}): {}", args.join(" "), ran.status, ran.stderr.trim())
        .into())
}

impl Ran {
    /// What it printed, as JSON.
    pub fn json(&self) -> Outcome<Value> {
        if !self.status.success() {
            return Err(format!("{}: {}", self.status, self.stderr.trim()).into());
        }
        Ok(serde_json::from_str(&self.stdout)?)
    }
}
