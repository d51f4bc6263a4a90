//! A server, a proxy before it, and clients of that.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio},
};

use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and a home of its own.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
}

/// A proxy that is ready. Ended when dropped.
pub(crate) struct Proxy {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) stderr: BufReader<ChildStderr>,
    /// What it said before it was ready.
    pub(crate) before: String,
    home: PathBuf,
}

impl Stage {
    /// A server that takes the token `good`, and a kubeconfig that has it.
    pub(crate) fn new() -> Self {
        let server = Server::setup().commands().start().unwrap();
        server.users().token("good", User::new("anna").group("dev"));
        Self::of(server, &json!({ "token": "good" }))
    }

    pub(crate) fn of(server: Server, user: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stage = Self { server, folder };
        stage.write("config", &stage.server.kubeconfig(user));
        fs::create_dir(stage.path("run")).unwrap();
        stage
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The program with the kubeconfig of the server.
    pub(crate) fn keyward(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyward"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("KUBECONFIG", self.path("config"))
            // Tests count runs, whatever the tester's agent has.
            .env("KEYWARD_AGENT", "off")
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn proxy(&self, args: &[&str]) -> Proxy {
        self.proxy_of(self.keyward(&[&["proxy"], args].concat()))
    }

    /// The proxy that a command starts.
    #[expect(clippy::zombie_processes, reason = "the proxy that is returned waits for it")]
    pub(crate) fn proxy_of(&self, mut command: Command) -> Proxy {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the proxy ended: {said}");
            if let Some(rest) = line.strip_prefix("ready ") {
                let (url, kubeconfig) = rest.trim_end().split_once(' ').unwrap();
                return Proxy {
                    child,
                    url: url.to_owned(),
                    kubeconfig: kubeconfig.into(),
                    stderr,
                    before: said,
                    home: self.folder.path().into(),
                };
            }
            said.push_str(&line);
        }
    }
}

impl Proxy {
    /// The real kubectl through the proxy.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Command {
        kubectl(&self.kubeconfig, &self.home, args)
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.kubectl(args).output().unwrap()
    }

    /// What kubectl prints; it must end well.
    pub(crate) fn prints(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running(self.kubectl(args).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The next line it says.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// Asks it to end, and waits for that. What it said on stderr since it was ready.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        signal(&self.child, "TERM");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A kubectl that runs on; ended on drop.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        BufReader::new(self.0.stdout.take().unwrap()).lines().map(Result::unwrap)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn kubectl(kubeconfig: &Path, home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(&kubectl::installed().path);
    command
        .args(args)
        .env("HOME", home)
        .env("KUBECONFIG", kubeconfig)
        .env_remove("HTTPS_PROXY")
        .env_remove("https_proxy");
    command
}

/// The minor version of this kubectl.
pub(crate) fn minor() -> u32 {
    kubectl::installed().minor
}

pub(crate) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    })
}
