//! Clusters, a kubeconfig of them, and a home with an agent that runs a proxy before them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take before a test is called hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A home, in which the context `NAME` leads to a server of its own, whose user is called so too.
pub(super) struct Stage {
    pub(super) home: TempDir,
    pub(super) servers: Vec<(String, Server)>,
    /// Where the programs are.
    pub(super) bin: PathBuf,
}

impl Stage {
    pub(super) fn new(contexts: &[&str]) -> Self {
        let bin = keyward_testing::plugin::exec().parent().unwrap();
        keyward_testing::plugin::agent();
        let home = tempfile::Builder::new().prefix("kw").tempdir().unwrap();
        for name in ["run", ".kube"] {
            fs::create_dir(home.path().join(name)).unwrap();
            let private = fs::Permissions::from_mode(0o700);
            fs::set_permissions(home.path().join(name), private).unwrap();
        }
        let mut stage = Self { home, servers: Vec::new(), bin: bin.to_owned() };
        for name in contexts {
            stage.add_server(name);
        }
        stage.write_config(contexts);
        stage
    }

    pub(super) fn add_server(&mut self, name: &str) {
        let server = Server::setup().commands().start().unwrap();
        server.users().token(&format!("token-of-{name}"), User::new(name));
        self.servers.push((name.to_owned(), server));
    }

    /// The programs as a copy of their own, which can be replaced.
    pub(super) fn install(&mut self) {
        self.replace_programs();
        self.bin = self.path("bin");
    }

    /// Replaces the copy, as a package manager does.
    pub(super) fn replace_programs(&self) {
        let bin = self.path("bin");
        fs::create_dir_all(&bin).unwrap();
        let keyward = Path::new(env!("CARGO_BIN_EXE_keyward"));
        for from in [keyward_testing::plugin::exec(), keyward_testing::plugin::agent(), keyward] {
            let name = from.file_name().unwrap();
            let new = bin.join("new");
            keyward_testing::plugin::copy(from, &new);
            fs::rename(new, bin.join(name)).unwrap();
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(super) fn server(&self, name: &str) -> &Server {
        &self.servers.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// The user's own kubeconfig with these contexts.
    pub(super) fn config(&self, contexts: &[&str]) -> Value {
        let mut config = json!({ "kind": "Config", "apiVersion": "v1" });
        for name in contexts {
            let text =
                self.server(name).kubeconfig(&json!({ "token": format!("token-of-{name}") }));
            let mut one: Value = serde_json::from_str(&text).unwrap();
            for list in ["clusters", "users", "contexts"] {
                let mut entry = one[list][0].take();
                entry["name"] = (*name).into();
                if list == "contexts" {
                    entry["context"] = json!({ "cluster": name, "user": name });
                }
                match config[list].as_array_mut() {
                    Some(all) => all.push(entry),
                    None => config[list] = json!([entry]),
                }
            }
        }
        config["current-context"] = contexts.first().copied().unwrap_or_default().into();
        config
    }

    pub(super) fn write_config(&self, contexts: &[&str]) {
        self.write_own(&self.config(contexts).to_string());
    }

    /// Replaces the user's own kubeconfig.
    pub(super) fn write_own(&self, text: &str) {
        let new = self.path(".kube/config.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(".kube/config")).unwrap();
    }

    fn surround(&self, command: &mut Command) {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin.display());
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", path)
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .current_dir(self.home.path())
            .stdin(Stdio::null());
    }

    /// A command in this home.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        self.surround(&mut command);
        command
    }

    pub(super) fn keyward(&self, args: &[&str]) -> Command {
        let mut command = self.command(self.bin.join("keyward"));
        command.args(args);
        command
    }

    /// Runs `keyward`, which must end well, and returns its output.
    pub(super) fn keyward_prints(&self, args: &[&str]) -> String {
        prints(&mut self.keyward(args))
    }

    /// Starts the proxy, and returns its kubeconfig.
    pub(super) fn start(&self, args: &[&str]) -> PathBuf {
        let line = self.keyward_prints(&[&["proxy", "start"], args].concat());
        line.trim_end().strip_prefix("export KUBECONFIG=").unwrap().into()
    }

    /// The real kubectl with this kubeconfig.
    pub(super) fn kubectl(&self, kubeconfig: &Path, args: &[&str]) -> Command {
        let mut command = self.command(&kubectl::installed().path);
        command.env("KUBECONFIG", kubeconfig).args(args);
        command
    }

    /// The user that kubectl is for the server of a context.
    pub(super) fn whoami(&self, kubeconfig: &Path, context: &str) -> String {
        let args = ["--context", context, "auth", "whoami", "-o"];
        let name = "jsonpath={.status.userInfo.username}";
        prints(&mut self.kubectl(kubeconfig, &[&args[..], &[name]].concat()))
    }

    /// The status of the proxies that run.
    pub(super) fn status(&self) -> Vec<Value> {
        let output = self.keyward(&["proxy", "status", "-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// The process of the only proxy that runs.
    pub(super) fn proxy(&self) -> i32 {
        let status = self.status();
        assert_eq!(status.len(), 1, "{status:?}");
        i32::try_from(status[0]["pid"].as_i64().unwrap()).unwrap()
    }

    pub(super) fn agent(&self) -> i32 {
        let status = self.keyward_prints(&["agent", "status", "-o", "json"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        i32::try_from(status["pid"].as_i64().unwrap()).unwrap()
    }

    /// Processes of this home.
    fn processes(&self) -> Vec<i32> {
        let home = self.home.path().to_str().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let all = fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &i32| {
            let read = |name: &str| fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            *id != own && environment.contains(home)
        })
        .collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Ended in the order in which they would start each other again.
        let _ = self.keyward(&["agent", "stop"]).output();
        for process in self.processes() {
            kill(process);
        }
        eventually("its processes are gone", || self.processes().into_iter().all(gone));
    }
}

/// Kills a process and waits for its end: until then its socket still accepts connections.
pub(super) fn kill(process: i32) {
    let pid = rustix::process::Pid::from_raw(process).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    eventually("a killed process is gone", || gone(process));
}

/// Whether a process has ended; another one may not have reaped it yet.
fn gone(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

/// Runs a command, which must end well, and returns its output.
pub(super) fn prints(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

pub(super) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for something that no event tells.
pub(super) fn eventually(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it never came true that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A kubeconfig, in whatever form a client has written it.
pub(super) fn read(kubeconfig: &Path) -> Value {
    let mut command = Command::new(&kubectl::installed().path);
    command.args(["config", "view", "--raw", "-o", "json"]).env("KUBECONFIG", kubeconfig);
    serde_json::from_str(&prints(&mut command)).unwrap()
}

/// The names of the contexts in a proxy's kubeconfig, with their addresses.
pub(super) fn addresses(kubeconfig: &Path) -> Vec<(String, String)> {
    let config = read(kubeconfig);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let clusters = config["clusters"].as_array().into_iter().flatten();
    clusters.map(|one| (text(&one["name"]), text(&one["cluster"]["server"]))).collect()
}
