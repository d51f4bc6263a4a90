//! A user with a plugin, and what is asked of both programs.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{ffi::OsStringExt, fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, UNIX_EPOCH},
};

use keyward_testing::{
    Error,
    authority::{Authority, Issued},
    pty::Pty,
    server::Server,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::trace::Trace;
use crate::generate::Rng;

/// The end of a credential that is over when it comes.
const PAST: &str = "2000-01-01T00:00:00Z";
/// What the server cannot answer.
pub(super) const BROKEN: &str = "/broken";
/// A path with more to it.
const QUERY: &str = "/version?b=2&a=x%20y&a=%2F&e=&pretty";

/// What plugins answer with beside tokens.
pub(super) struct Certificates {
    /// Of the server's authority.
    good: Issued,
    /// Of the server's authority, long expired.
    over: Issued,
    /// Of an authority that the server does not know.
    strange: Issued,
}

impl Certificates {
    /// For a server of this authority.
    pub(super) fn issue(authority: &Authority) -> Result<Self, Error> {
        let stranger = Authority::new("somebody else")?;
        let day = Duration::from_secs(24 * 60 * 60);
        let (from, until) = (UNIX_EPOCH + 10_000 * day, UNIX_EPOCH + 10_001 * day);
        Ok(Self {
            good: authority.client("carol").group("dev").issue()?,
            over: authority.client("carol").from(from).until(until).issue()?,
            strange: stranger.client("carol").issue()?,
        })
    }

    /// One of them, alone, with a token, or as no plugin should answer.
    fn status(&self, rng: &mut Rng) -> Value {
        let pair = |certificate: &Issued, key: &Issued| {
            json!({
                "clientCertificateData": certificate.certificate_pem(),
                "clientKeyData": key.key_pem(),
            })
        };
        let mut status = match rng.below(10) {
            0 => pair(&self.over, &self.over),
            1 => pair(&self.strange, &self.strange),
            2 => pair(&self.good, &self.strange),
            3 => json!({ "clientCertificateData": self.good.certificate_pem() }),
            _ => pair(&self.good, &self.good),
        };
        if rng.chance(40) {
            status["token"] = json!(rng.of(&["good", "bad"]));
        }
        match rng.below(6) {
            0 => status["expirationTimestamp"] = json!(PAST),
            1 => status["expirationTimestamp"] = json!("2099-01-01T00:00:00Z"),
            _ => {}
        }
        status
    }
}

/// A user with a plugin, and the surroundings of one run.
#[derive(Debug)]
pub(super) struct Case {
    /// The user in the kubeconfig, with the plugin.
    user: Value,
    /// What the plugin prints, and its exit code.
    stdout: String,
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
    /// As `NAME=value`.
    variables: Vec<OsString>,
    /// In `--token`.
    token: Option<&'static str>,
}

impl Case {
    pub(super) fn make(rng: &mut Rng, certificates: &Certificates, has_policy: bool) -> Self {
        let version = rng.mostly(
            60,
            "client.authentication.k8s.io/v1",
            &["client.authentication.k8s.io/v1beta1"],
        );
        let usual = rng.of(&["Never", "IfAvailable", "IfAvailable", "Always"]);
        let mode = rng.mostly(80, usual, &["", "", "Sometimes"]);
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
        let status = match rng.below(12) {
            0 => json!({ "token": "bad" }),
            1 => json!({}),
            2 => json!({ "token": "good", "expirationTimestamp": PAST }),
            3 => json!({ "token": "good", "expirationTimestamp": "2099-01-01T00:00:00Z" }),
            4..7 => certificates.status(rng),
            _ => json!({ "token": "good" }),
        };
        let mut answer =
            json!({ "apiVersion": version, "kind": "ExecCredential", "status": status });
        if rng.chance(10) {
            answer["apiVersion"] = json!("client.authentication.k8s.io/v2");
        }
        let stdout = if rng.chance(5) { "not an answer".to_owned() } else { answer.to_string() };
        let all: &[&[u8]] = &[
            b"A=from outside",
            b"KUBERNETES_EXEC_INFO=stale",
            b"LANG=C.UTF-8",
            b"X=a=b\nc",
            b"Y=\xff\xfe no text \xc3",
            b"Y=\xed\xa0\x80\r",
            b"a.b-c \xe9=",
        ];
        let variables = (0..rng.below(4)).map(|_| all[rng.below(all.len())].to_vec());
        let variables = variables.map(OsString::from_vec).collect();
        let mut user = json!({ "exec": exec });
        if rng.chance(15) {
            user["as"] = json!("dave");
            user["as-groups"] = json!(["ops", "a b"]);
            user["as-uid"] = json!("7");
            user["as-user-extra"] = json!({ "Reason/x": ["one", "two"], "b c%": [""] });
        }
        let (terminal, odd_flag) =
            (rng.chance(50), rng.chance(4).then_some("--keyward-no-such-flag"));
        let token = rng.chance(8).then_some("good");
        Self {
            user,
            stdout,
            code: if rng.chance(10) { 1 + rng.below(120) } else { 0 },
            terminal,
            variables,
            token,
            path: rng.mostly(75, "/version", &["/no/such/path", BROKEN, QUERY]),
            denied: has_policy && rng.chance(8),
            odd_flag,
            inside: !terminal && odd_flag.is_none() && token.is_none() && rng.chance(40),
        }
    }

    /// Whether what the plugin answers is over when it comes.
    pub(super) fn is_over(&self) -> bool {
        self.stdout.contains(PAST)
    }

    /// Whether this is the path it asks for, as it is written.
    pub(super) fn asks(&self, target: &str) -> bool {
        self.path == target
    }

    /// What Keyward must end with where kubectl ended with `theirs`: the same number, and where that
    /// is 1, the number of its own that a failure has, if it has one. The first reason counts, in the
    /// order of the lines. Nothing is promised for a number that kubectl has no reason to end with.
    pub(super) fn promise(&self, theirs: i32) -> Option<i32> {
        let exec = &self.user["exec"];
        let mode = exec["interactiveMode"].as_str();
        let is_bad = mode == Some("Sometimes")
            || mode.is_none() && exec["apiVersion"] == "client.authentication.k8s.io/v1";
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
        Trace::read(code(status), folder.path(), server)
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
        // Its own PATH may be one on which nothing is.
        let script = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin\nn=$(ls {0} | grep -c run)\ncat /proc/$$/environ >{0}/run.$n\n\
             readlink /proc/$$/fd/0 >{0}/in.$n\ncat {0}/answer\nexit {1}\n",
            folder.path().display(),
            self.code
        );
        fs::write(path("plugin"), script)?;
        fs::set_permissions(path("plugin"), fs::Permissions::from_mode(0o755))?;
        fs::write(path("config"), server.kubeconfig(&self.user))?;
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

    /// The program in the case's environment, with the kubeconfig of this directory.
    fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new("env");
        command.args(["-i", "HOME=/nonexistent", "PATH=/usr/bin:/bin"]);
        if self.denied {
            command.arg(format!("KUBERC={}", folder.join("kuberc").display()));
        }
        command.args(&self.variables);
        command.arg(program).arg("--kubeconfig").arg(folder.join("config"));
        command
    }
}

/// The number that a shell would show.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
