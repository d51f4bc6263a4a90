//! A home, a runtime directory, a plugin that counts its runs, and the agent that belongs to them.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use keyward_agent::{
    Address, connect_or_start,
    registration::{Registration, Registrations},
};
use keyward_host::kubeconfig::{ApiVersion, Exec, InteractiveMode};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_protocol::agent::Ask;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const VERSION: &str = "client.authentication.k8s.io/v1";

/// How long anything may take before a test is called hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Counts its runs, waits where it is told to, fails where it is told to, prints its answer.
const PLUGIN: &str = r#"here=$(dirname "$0")
echo "$$" >>"$here/runs"
while [ -e "$here/hold" ]; do sleep 0.02; done
if [ -e "$here/fail" ]; then cat "$here/fail" >&2; exit 1; fi
if [ -e "$here/ask" ]; then printf 'PIN: ' >/dev/tty; read pin </dev/tty; fi
if [ -n "$ANSWER" ]; then sed "s/t0ken/$ANSWER/" "$here/first"; else cat "$here/answer"; fi
"#;

pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    pub(crate) vars: Vec<(String, String)>,
}

impl Stage {
    /// A stage whose plugin is registered, as `keyward wrap` would.
    pub(crate) fn new() -> Self {
        let stage = Self::unregistered();
        stage.register();
        stage
    }

    pub(crate) fn unregistered() -> Self {
        let dir = tempfile::Builder::new().prefix("kw").tempdir().unwrap();
        for name in ["run", "home", "plugin"] {
            fs::DirBuilder::new().mode(0o700).create(dir.path().join(name)).unwrap();
        }
        let vars = [
            ("HOME", dir.path().join("home").to_str().unwrap().to_owned()),
            ("XDG_RUNTIME_DIR", dir.path().join("run").to_str().unwrap().to_owned()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ];
        let vars = vars.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let stage = Self { dir, vars };
        fs::write(stage.plugin("plugin"), PLUGIN).unwrap();
        stage.answer("t0ken");
        fs::copy(stage.plugin("answer"), stage.plugin("first")).unwrap();
        stage
    }

    /// A file beside the plugin.
    pub(crate) fn plugin(&self, name: &str) -> PathBuf {
        self.dir.path().join("plugin").join(name)
    }

    pub(crate) fn answer(&self, token: &str) {
        self.answer_until(token, &"2099-01-01T00:00:00Z");
    }

    pub(crate) fn answer_until(&self, token: &str, end: &impl ToString) {
        let answer = serde_json::json!({
            "kind": "ExecCredential",
            "apiVersion": VERSION,
            "status": { "token": token, "expirationTimestamp": end.to_string() },
        });
        let new = self.plugin("new");
        fs::write(&new, answer.to_string()).unwrap();
        fs::rename(new, self.plugin("answer")).unwrap();
    }

    pub(crate) fn set(&self, name: &str, content: &str) {
        fs::write(self.plugin(name), content).unwrap();
    }

    pub(crate) fn unset(&self, name: &str) {
        fs::remove_file(self.plugin(name)).unwrap();
    }

    pub(crate) fn runs(&self) -> usize {
        fs::read_to_string(self.plugin("runs")).map_or(0, |runs| runs.lines().count())
    }

    /// The plugin as the kubeconfig names it. The shell reads it: executed itself, it could be found
    /// busy.
    pub(crate) fn words(&self) -> [String; 2] {
        ["sh".to_owned(), self.plugin("plugin").to_str().unwrap().to_owned()]
    }

    /// A variable of this stage.
    pub(crate) fn var(&self, name: &str) -> Option<OsString> {
        self.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.into())
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings::fixed(Fixed {
            vars: self.vars.iter().map(|(n, v)| (n.into(), v.into())).collect(),
            cwd: "/".into(),
            ..Fixed::default()
        })
    }

    /// What `keyward-exec` would ask in this stage.
    pub(crate) fn question(&self) -> Ask {
        let [command, script] = self.words();
        let bytes = |text: &String| text.clone().into_bytes();
        let mut environment: Vec<_> = self.vars.iter().map(|(n, v)| (bytes(n), bytes(v))).collect();
        environment.push((b"KUBERNETES_EXEC_INFO".to_vec(), request(false).into_bytes()));
        Ask {
            command: command.into_bytes(),
            args: vec![script.into_bytes()],
            environment,
            directory: b"/".to_vec(),
            terminal: Vec::new(),
            login: false,
            ..Ask::default()
        }
    }

    fn registration(&self) -> (Registration, Surroundings) {
        let surroundings = self.surroundings();
        let [command, script] = self.words();
        let exec = Exec {
            command,
            args: vec![script],
            api_version: ApiVersion::parse(VERSION),
            interactive_mode: InteractiveMode::IfAvailable,
            ..Exec::default()
        };
        let kubeconfig = self.dir.path().join("home/.kube/config");
        (Registration::new(&exec, &kubeconfig, "ann", &surroundings).unwrap(), surroundings)
    }

    pub(crate) fn register(&self) {
        let (mut registration, surroundings) = self.registration();
        registration.contexts = vec!["prod".into()];
        Self::register_as(&registration, &surroundings);
    }

    /// Registers the plugin for the server of this kubeconfig, which has one context `test`.
    pub(crate) fn register_for(&self, server: &str) {
        let (mut registration, surroundings) = self.registration();
        registration.contexts = vec!["test".into()];
        registration.server = server.into();
        Self::register_as(&registration, &surroundings);
    }

    fn register_as(registration: &Registration, surroundings: &Surroundings) {
        let directory = Registrations::directory(surroundings).unwrap();
        Registrations::new(directory).add(registration).unwrap();
    }

    /// A command in this stage.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.vars.iter().map(|(n, v)| (n, v))).current_dir("/");
        command.stdin(Stdio::null());
        command
    }

    /// What kubectl starts, by a process of its own, as each kubectl is one.
    pub(crate) fn kubectl(&self) -> Command {
        self.kubectl_with(&request(false))
    }

    pub(crate) fn kubectl_with(&self, request: &str) -> Command {
        let mut command = self.command("sh");
        // A shell that has something left to do does not become the program.
        command.args(["-c", "\"$@\"; exit $?", "kubectl"]).arg(exec()).arg("--");
        command.args(self.words()).env("KUBERNETES_EXEC_INFO", request);
        command
    }

    pub(crate) fn ask(&self) -> Output {
        self.kubectl().output().unwrap()
    }

    /// The token that a request gets.
    pub(crate) fn token(&self) -> String {
        token(&self.ask())
    }

    pub(crate) fn keyward(&self, words: &[&str]) -> Output {
        self.command(keyward_testing::plugin::keyward()).args(words).output().unwrap()
    }

    pub(crate) fn status(&self) -> Value {
        let output = self.keyward(&["agent", "status", "-o", "json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The only credential that the agent keeps.
    pub(crate) fn kept(&self) -> Value {
        let status = self.status();
        assert_eq!(status["credentials"].as_array().unwrap().len(), 1, "{status}");
        status["credentials"][0].clone()
    }

    /// Starts the agent before anybody needs it.
    pub(crate) fn start_agent(&self) {
        let var = |name: &str| {
            let found = self.vars.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.into())
        };
        let address = Address::find(var).unwrap();
        let program = keyward_testing::plugin::keyward();
        connect_or_start(&address, program, var).map(drop).unwrap();
    }

    /// The agents of this stage, by their sockets.
    pub(crate) fn agents(&self) -> Vec<i32> {
        let dir = self.dir.path().to_str().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &i32| {
            let read = |name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
            let words = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let agent = ["keyward agent --background", "keyward-agent --background"];
            agent.iter().any(|agent| words.contains(agent)) && environment.contains(dir)
        })
        .collect()
    }

    pub(crate) fn agent(&self) -> i32 {
        match self.agents().as_slice() {
            [one] => *one,
            other => panic!("one agent, not {other:?}"),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for process in self.agents() {
            signal(process, rustix::process::Signal::KILL);
            eventually("the agent is gone", || {
                !Path::new(&format!("/proc/{process}")).exists()
                    || fs::read_to_string(format!("/proc/{process}/stat"))
                        .is_ok_and(|s| s.contains(") Z "))
            });
        }
    }
}

/// A process that ends with this value.
pub(crate) struct Foreground(pub(crate) Child);

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn exec() -> &'static Path {
    // They have to be built, and newer than their sources.
    keyward_testing::plugin::keyward();
    keyward_testing::plugin::agent();
    Path::new(env!("CARGO_BIN_EXE_keyward-exec"))
}

pub(crate) fn request(interactive: bool) -> String {
    let spec = serde_json::json!({ "interactive": interactive });
    serde_json::json!({ "kind": "ExecCredential", "apiVersion": VERSION, "spec": spec }).to_string()
}

pub(crate) fn signal(process: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(process).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

pub(crate) fn token(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for something that no event tells.
pub(crate) fn eventually(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it never came true that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn private(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}
