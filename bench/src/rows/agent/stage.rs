//! A home with a wrapped kubeconfig, and the agent that belongs to it.

use std::{
    fs::{self, File},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use keyward_protocol::agent::Ask;
use keyward_testing::server::{Server, User};
use serde_json::{Value, json};

use super::{
    super::{scene::TOKEN, startup},
    kubelogin,
};

const VERSION: &str = "client.authentication.k8s.io/v1";
/// The only version that kubelogin answers in, whatever it is asked for.
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";

pub struct Stage {
    dir: tempfile::TempDir,
    /// A server that accepts the plugin's token: the agent asks it when one process asks often.
    server: Server,
}

impl Stage {
    /// A stage whose plugin takes so long, in the words of `sleep`.
    pub fn new(sleep: Option<&str>) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        let dir = tempfile::Builder::new().prefix("kw").tempdir().map_err(text)?;
        for name in ["run", "home"] {
            fs::DirBuilder::new().mode(0o700).create(dir.path().join(name)).map_err(text)?;
        }
        let server = Server::setup().records(0).start().map_err(|e| e.to_string())?;
        let stage = Self { dir, server };
        stage.accept(TOKEN);
        stage.accept(kubelogin::TOKEN);
        let pause = sleep.map(|time| format!("sleep {time}\n")).unwrap_or_default();
        let answer = json!({
            "apiVersion": VERSION, "kind": "ExecCredential",
            "status": { "token": TOKEN, "expirationTimestamp": "2099-01-01T00:00:00Z" },
        });
        fs::write(stage.plugin(), format!("#!/bin/sh\n{pause}echo '{answer}'\n")).map_err(text)?;
        fs::set_permissions(stage.plugin(), fs::Permissions::from_mode(0o755)).map_err(text)?;
        fs::write(stage.path("answer"), answer.to_string()).map_err(text)?;
        let answer = vec![stage.path("answer").display().to_string()];
        let cache = stage.path("kubelogin-cache");
        let configs = [
            ("static", json!({ "token": TOKEN })),
            ("cat", plugin(VERSION, Path::new("/bin/cat"), &answer)),
            ("kubelogin", plugin(V1BETA1, &kubelogin::program(), &kubelogin::args(&cache))),
            ("plain", plugin(VERSION, &stage.plugin(), &[])),
        ];
        for (name, user) in configs {
            fs::write(stage.path(name), stage.server.kubeconfig(&user)).map_err(text)?;
        }
        stage.wrap("wrapped", &stage.plugin(), &[])?;
        Ok(stage)
    }

    /// Writes a kubeconfig with a plugin and wraps it.
    pub fn wrap(&self, name: &str, program: &Path, args: &[String]) -> Result<(), String> {
        let config = self.server.kubeconfig(&plugin(VERSION, program, args));
        fs::write(self.path(name), config).map_err(|e| e.to_string())?;
        let mut wrap = self.command(startup::keyward());
        wrap.args(["wrap", "--all", "--kubeconfig"]).arg(self.path(name));
        run(wrap.arg("--wrapper").arg(exec_program()))
    }

    /// Makes the server accept a token.
    pub fn accept(&self, token: &str) {
        self.server.users().token(token, User::new("bench"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn plugin(&self) -> PathBuf {
        self.path("plugin")
    }

    fn vars(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.path(name).display().to_string();
        let programs = startup::keyward().parent().map(Path::to_owned).unwrap_or_default();
        let info = json!({ "kind": "ExecCredential", "apiVersion": VERSION, "spec": { "interactive": false } });
        let vars = [
            ("HOME", path("home")),
            ("XDG_RUNTIME_DIR", path("run")),
            ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display())),
            ("KUBERNETES_EXEC_INFO", info.to_string()),
        ];
        vars.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// A command in this home, as it would be without the variables of whoever runs the bench.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().envs(self.vars()).current_dir("/");
        command
    }

    /// What kubectl starts.
    pub fn ask(&self) -> Command {
        let mut command = self.command(exec_program());
        command.arg("--").arg(self.plugin());
        command
    }

    /// A plugin that has its answer in a file; the first call puts it there.
    pub fn kubelogin(&self) -> Result<Command, String> {
        let cache = self.path("kubelogin-cache");
        if !cache.exists() {
            kubelogin::warm(&cache)?;
        }
        let mut command = self.command(kubelogin::program());
        command.args(kubelogin::args(&cache));
        Ok(command)
    }

    /// What `keyward-exec` sends, for one of several identities.
    pub fn question(&self, number: usize) -> Ask {
        let pairs = self.vars().into_iter().chain([("NUMBER".to_owned(), number.to_string())]);
        Ask {
            command: self.plugin().display().to_string().into_bytes(),
            args: Vec::new(),
            environment: pairs.map(|(n, v)| (n.into_bytes(), v.into_bytes())).collect(),
            directory: b"/".to_vec(),
            terminal: Vec::new(),
            login: false,
            ..Ask::default()
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.path("run/keyward/agent.sock")
    }

    /// The process id of the agent, which has to run.
    pub fn agent(&self) -> Result<u32, String> {
        let mut command = self.command(startup::keyward());
        let output = command.args(["agent", "status", "-o", "json"]).output();
        let output = output.map_err(|e| e.to_string())?;
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let program = status["program"].as_str().unwrap_or_default();
        if !program.ends_with("/keyward-agent") {
            return Err(format!("the agent is `{program}`, not `keyward-agent`"));
        }
        status["pid"].as_u64().and_then(|pid| pid.try_into().ok()).ok_or("no agent runs".to_owned())
    }

    /// Ends the agent.
    pub fn stop(&self) -> Result<(), String> {
        run(self.command(startup::keyward()).args(["agent", "stop"]))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// The small client, as it is shipped; `cargo xtask bench` builds it.
pub fn exec_program() -> PathBuf {
    startup::keyward().with_file_name("../exec/keyward-exec")
}

/// The user of a kubeconfig with a plugin.
fn plugin(version: &str, program: &Path, args: &[String]) -> Value {
    json!({ "exec": {
        "apiVersion": version, "command": program, "args": args, "interactiveMode": "Never",
    } })
}

/// Milliseconds of one start.
pub fn time(command: &mut Command) -> Result<f64, String> {
    startup::starts(1, command)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("`{name}`: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{name}`: {}", String::from_utf8_lossy(&output.stderr)))
}

/// git's own cache of credentials, with one in it.
pub struct GitCache(tempfile::TempDir);

impl GitCache {
    pub fn new() -> Result<Self, String> {
        let cache = Self(tempfile::tempdir().map_err(|e| e.to_string())?);
        let directory = cache.0.path();
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .map_err(|e| e.to_string())?;
        let question = "protocol=https\nhost=git.example\n";
        let stored = format!("{question}username=ann\npassword={TOKEN}\n\n");
        let write = |name: &str, text: &str| fs::write(directory.join(name), text);
        write("store", &stored)
            .and_then(|()| write("get", &format!("{question}\n")))
            .map_err(|e| e.to_string())?;
        cache.time("store")?;
        Ok(cache)
    }

    /// Milliseconds of one command.
    pub fn time(&self, verb: &str) -> Result<f64, String> {
        let stdin = File::open(self.0.path().join(verb)).map_or(Stdio::null(), Stdio::from);
        let mut command = Command::new("git");
        command.arg("credential-cache").arg("--socket").arg(self.0.path().join("socket")).arg(verb);
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        let begin = Instant::now();
        let status = command.status().map_err(|e| format!("git: {e}"))?;
        if !status.success() {
            return Err(format!("`git credential-cache {verb}` ended with {status}"));
        }
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }
}

impl Drop for GitCache {
    fn drop(&mut self) {
        let _ = self.time("exit");
    }
}
