//! A user with a plugin, what is asked of both programs, and what is seen of it.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use keyward_testing::{pty::Pty, server::Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::generate::Rng;

/// The end of a credential that is over when it comes.
pub(super) const PAST: &str = "2000-01-01T00:00:00Z";
/// What the server cannot answer.
pub(super) const BROKEN: &str = "/broken";

/// What a run left behind.
#[derive(Debug)]
pub(super) struct Trace {
    /// The number the program ended with.
    pub(super) code: i32,
    /// What the plugin was given, each time: its variables, sorted, and what its stdin is.
    pub(super) runs: Vec<(Vec<String>, String)>,
    /// What the server received: method, path and credential.
    pub(super) requests: Vec<(String, String, String)>,
}

/// A user with a plugin, and the surroundings of one run.
#[derive(Debug)]
pub(super) struct Case {
    exec: Value,
    /// What the plugin prints, and its exit code.
    pub(super) stdout: String,
    code: usize,
    /// What is asked of the server.
    path: &'static str,
    /// Whether kuberc denies all plugins.
    denied: bool,
    /// A flag that nobody knows.
    odd_flag: Option<&'static str>,
    /// Whether kubectl runs in `keyward proxy` too.
    inside: bool,
    terminal: bool,
    variables: Vec<(&'static str, &'static str)>,
    /// In `--token`.
    token: Option<&'static str>,
}

impl Case {
    pub(super) fn make(rng: &mut Rng, has_policy: bool) -> Self {
        let version = rng.mostly(
            60,
            "client.authentication.k8s.io/v1",
            &["client.authentication.k8s.io/v1beta1"],
        );
        let mode = rng.of(&["Never", "IfAvailable", "Always", "", "Sometimes"]);
        let mut exec = json!({
            "apiVersion": version,
            "command": rng.mostly(94, "./plugin", &["./missing", "keyward-no-such-plugin"]),
            "provideClusterInfo": rng.chance(50),
            "args": ["a b", "", "$HOME"],
        });
        if !mode.is_empty() {
            exec["interactiveMode"] = json!(mode);
        }
        let pairs = [
            ("A", "1"),
            ("A", "2"),
            ("B", ""),
            ("PATH", "/nowhere"),
            ("C", "$A ${B}"),
            ("KUBERNETES_EXEC_INFO", "x"),
        ];
        let env: Vec<Value> = (0..rng.below(4))
            .map(|_| pairs[rng.below(pairs.len())])
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        if !env.is_empty() {
            exec["env"] = json!(env);
        }
        let status = match rng.below(8) {
            0 => json!({ "token": "bad" }),
            1 => json!({}),
            2 => json!({ "token": "good", "expirationTimestamp": PAST }),
            3 => json!({ "token": "good", "expirationTimestamp": "2099-01-01T00:00:00Z" }),
            _ => json!({ "token": "good" }),
        };
        let mut answer =
            json!({ "apiVersion": version, "kind": "ExecCredential", "status": status });
        if rng.chance(10) {
            answer["apiVersion"] = json!("client.authentication.k8s.io/v2");
        }
        let stdout = if rng.chance(5) { "not an answer".to_owned() } else { answer.to_string() };
        let all = [
            ("A", "from outside"),
            ("KUBERNETES_EXEC_INFO", "stale"),
            ("LANG", "C.UTF-8"),
            ("X", "a=b\nc"),
        ];
        let variables = (0..rng.below(3)).map(|_| all[rng.below(all.len())]).collect();
        let (terminal, odd_flag) =
            (rng.chance(50), rng.chance(4).then_some("--keyward-no-such-flag"));
        let token = rng.chance(8).then_some("good");
        Self {
            exec,
            stdout,
            code: if rng.chance(10) { 1 + rng.below(120) } else { 0 },
            terminal,
            variables,
            token,
            path: rng.mostly(85, "/version", &["/no/such/path", BROKEN]),
            denied: has_policy && rng.chance(8),
            odd_flag,
            inside: !terminal && odd_flag.is_none() && token.is_none() && rng.chance(40),
        }
    }

    /// What Keyward must end with where kubectl ended with `theirs`: the same number, and where that
    /// is 1, the number of its own that a failure has, if it has one. The first reason counts, in the
    /// order of the lines. Nothing is promised for a number that kubectl has no reason to end with.
    pub(super) fn promise(&self, theirs: i32) -> Option<i32> {
        let mode = self.exec["interactiveMode"].as_str();
        let is_bad = mode == Some("Sometimes")
            || mode.is_none() && self.exec["apiVersion"] == "client.authentication.k8s.io/v1";
        match theirs {
            0 => Some(0),
            1 if self.odd_flag.is_some() => Some(2),
            // With a token nobody asks for the plugin.
            1 if is_bad || self.token.is_some() => Some(1),
            1 if mode == Some("Always") && !self.terminal => Some(3),
            1 if self.denied => Some(4),
            1 => Some(1),
            _ => None,
        }
    }

    pub(super) fn run(&self, program: &Path, server: &Server) -> io::Result<Trace> {
        let folder = self.folder(server)?;
        let path = |name: &str| folder.path().join(name);
        server.recorder().clear();
        let mut command = self.command(program, folder.path());
        if let Some(token) = self.token {
            command.arg(format!("--token={token}"));
        }
        command.args(["get", "--raw", self.path]);
        command.args(self.odd_flag);
        let status = if self.terminal {
            Pty::spawn(&command)?.finish()
        } else {
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).status()?
        };
        let mut runs = Vec::new();
        while let Ok(environment) = fs::read(path(&format!("run.{}", runs.len()))) {
            let text = String::from_utf8_lossy(&environment).into_owned();
            let mut variables: Vec<String> =
                text.split_terminator('\0').map(str::to_owned).collect();
            // The one variable of ours: it ends a loop of plugins that call Keyward again.
            variables.retain(|variable| !variable.starts_with("KEYWARD_CHAIN="));
            variables.sort();
            let stdin = fs::read_to_string(path(&format!("in.{}", runs.len())))?;
            let stdin =
                if stdin.starts_with("/dev/pts/") { "a terminal" } else { stdin.trim_end() };
            runs.push((variables, stdin.to_owned()));
        }
        let requests = server.recorder().all().into_iter().map(|record| {
            let credential = record.header("authorization").unwrap_or_default().to_owned();
            (record.method.to_string(), record.uri.path().to_owned(), credential)
        });
        Ok(Trace { code: code(status), runs, requests: requests.collect() })
    }

    /// What `keyward proxy` with kubectl as its command ends with; `None` for a case that is not put to it.
    pub(super) fn run_inside(
        &self,
        keyward: &Path,
        kubectl: &Path,
        server: &Server,
    ) -> io::Result<Option<i32>> {
        if !self.inside {
            return Ok(None);
        }
        let folder = self.folder(server)?;
        let mut command = self.command(keyward, folder.path());
        command.args(["proxy", "--"]).arg(kubectl).args(["get", "--raw", self.path]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Some(code(command.status()?)))
    }

    /// The plugin, its answer, the kubeconfig and the kuberc.
    fn folder(&self, server: &Server) -> io::Result<TempDir> {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        fs::write(path("answer"), &self.stdout)?;
        let script = format!(
            "#!/bin/sh\nn=$(ls {0} | grep -c run)\ncat /proc/$$/environ >{0}/run.$n\n\
             readlink /proc/$$/fd/0 >{0}/in.$n\ncat {0}/answer\nexit {1}\n",
            folder.path().display(),
            self.code
        );
        fs::write(path("plugin"), script)?;
        fs::set_permissions(path("plugin"), fs::Permissions::from_mode(0o755))?;
        fs::write(path("config"), server.kubeconfig(&json!({ "exec": self.exec })))?;
        let policy = if self.denied { "DenyAll" } else { "AllowAll" };
        // Of the one form that both read.
        let kuberc = json!({
            "apiVersion": "kubectl.config.k8s.io/v1beta1",
            "kind": "Preference",
            "credentialPluginPolicy": policy,
        });
        fs::write(path("kuberc"), kuberc.to_string())?;
        Ok(folder)
    }

    /// The program in the case's environment, with the kubeconfig of this folder.
    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new("env");
        command.args(["-i", "HOME=/nonexistent", "PATH=/usr/bin:/bin"]);
        if self.denied {
            command.arg(format!("KUBERC={}", folder.join("kuberc").display()));
        }
        command.args(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).arg("--kubeconfig").arg(folder.join("config"));
        command
    }
}

/// The number that a shell would show.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
