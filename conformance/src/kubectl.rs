//! The second judge: the real kubectl beside the real `keyward get`, against one server.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use keyward_testing::{
    pty::Pty,
    server::{Server, User},
};
use serde_json::{Value, json};

use crate::generate::Rng;

/// Both programs.
pub struct Judge {
    kubectl: PathBuf,
    keyward: PathBuf,
}

/// What a run left behind, as far as both programs must agree on it.
#[derive(PartialEq, Eq, Debug)]
struct Trace {
    /// Whether the program succeeded.
    succeeded: bool,
    /// What the plugin was given, each time: its variables, sorted, and what its stdin is.
    runs: Vec<(Vec<String>, String)>,
    /// What the server received: method, path and credential.
    requests: Vec<(String, String, String)>,
}

/// The end of a credential that is over when it comes.
const PAST: &str = "2000-01-01T00:00:00Z";

impl Judge {
    /// Finds both programs; `Err` says why there is no judge.
    pub fn find(root: &Path) -> Result<Self, String> {
        let keyward = env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.join("keyward")))
            .filter(|program| program.is_file())
            .ok_or("`keyward` is not built beside this program")?;
        let mut places: Vec<PathBuf> =
            env::var_os("KEYWARD_KUBECTL").map(PathBuf::from).into_iter().collect();
        let home = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        if let Some(cache) = home {
            let versions = fs::read_dir(cache.join("keyward/e2e")).into_iter().flatten().flatten();
            places.extend(versions.map(|version| version.path().join("kubernetes/kubectl")));
        }
        places.push("kubectl".into());
        let mut old = None;
        for kubectl in places {
            match minor(&kubectl, root) {
                // Older ones know no interactiveMode.
                Some(minor) if minor >= 26 => return Ok(Self { kubectl, keyward }),
                Some(minor) => old = Some(minor),
                None => {}
            }
        }
        Err(old.map_or("no kubectl".to_owned(), |minor| {
            format!("kubectl is 1.{minor}, and one of 1.26 or newer is needed (KEYWARD_KUBECTL names it)")
        }))
    }

    /// Runs both on `count` kubeconfigs; how many went the same way and how many not.
    pub fn run(&self, count: usize, seed: u64) -> Result<(usize, usize), String> {
        let server = Server::setup().start().map_err(|e| format!("no server: {e}"))?;
        server.users().token("good", User::new("jane"));
        let mut rng = Rng::new(seed);
        let (mut same, mut differ) = (0, 0);
        for _ in 0..count {
            let case = Case::make(&mut rng);
            let [theirs, ours] = [&self.kubectl, &self.keyward]
                .map(|program| case.run(program, &server).map_err(|e| e.to_string()));
            let (mut theirs, ours) = (theirs?, ours?);
            if case.stdout.contains(PAST) {
                // kubectl runs it once more for the handshake; ours shares the one run.
                theirs.runs.dedup();
            }
            if theirs == ours {
                same += 1;
            } else {
                differ += 1;
                println!("\nkubectl: {case:?}\n  kubectl: {theirs:?}\n  keyward: {ours:?}\n");
            }
        }
        Ok((same, differ))
    }
}

/// The minor version of a kubectl.
fn minor(kubectl: &Path, folder: &Path) -> Option<u32> {
    let output = Command::new(kubectl)
        .args(["version", "--client", "-o", "json"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let said: Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = said["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// A user with a plugin, and the surroundings of one run.
#[derive(Debug)]
struct Case {
    exec: Value,
    /// What the plugin prints, and its exit code.
    stdout: String,
    code: usize,
    terminal: bool,
    variables: Vec<(&'static str, &'static str)>,
    /// In `--token`.
    token: Option<&'static str>,
}

impl Case {
    fn make(rng: &mut Rng) -> Self {
        let version = rng.mostly(
            60,
            "client.authentication.k8s.io/v1",
            &["client.authentication.k8s.io/v1beta1"],
        );
        let mode = rng.of(&["Never", "IfAvailable", "Always", "", "Sometimes"]);
        let mut exec = json!({
            "apiVersion": version,
            "command": "./plugin",
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
        Self {
            exec,
            stdout,
            code: if rng.chance(10) { 1 + rng.below(120) } else { 0 },
            terminal: rng.chance(50),
            variables,
            token: rng.chance(8).then_some("good"),
        }
    }

    fn run(&self, program: &Path, server: &Server) -> std::io::Result<Trace> {
        // Both in a folder of one name: the plugin's path is in what is compared.
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
        server.recorder().clear();
        let mut command = Command::new("env");
        command.args(["-i", "HOME=/nonexistent", "PATH=/usr/bin:/bin"]);
        command.args(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).arg("--kubeconfig").arg(path("config"));
        if let Some(token) = self.token {
            command.arg(format!("--token={token}"));
        }
        command.args(["get", "--raw", "/version"]);
        let succeeded = if self.terminal {
            Pty::spawn(&command)?.finish().success()
        } else {
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?
                .success()
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
        Ok(Trace { succeeded, runs, requests: requests.collect() })
    }
}
