//! The node's agent, with the socket in the hand of the test, as systemd holds it.

use std::{
    fs::{self, DirBuilder},
    io::{BufRead as _, BufReader},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use serde_json::{Value, json};

use crate::stage::{Ran, Stage, run};

/// The variable with the socket of the node's agent.
const SOCKET: &str = "KEYWARD_SYSTEM_AGENT_SOCK";

/// A stage with a node's agent.
pub(crate) struct Node {
    pub(crate) stage: Stage,
    listener: UnixListener,
    agent: Mutex<Child>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let stage = Stage::new();
        private(&stage.path("run"));
        let listener = UnixListener::bind(socket(&stage)).unwrap();
        let agent = activate(&stage, &listener);
        Self { stage, listener, agent: Mutex::new(agent) }
    }

    /// What systemd does after a crash. The socket has been there all the time.
    pub(crate) fn kill_and_restart(&self) {
        self.kill();
        self.restart();
    }

    pub(crate) fn kill(&self) {
        let mut agent = self.agent.lock().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Starts an agent after the last one has ended, and returns its process.
    fn restart(&self) -> u32 {
        let mut agent = self.agent.lock().unwrap();
        agent.wait().unwrap();
        *agent = activate(&self.stage, &self.listener);
        agent.id()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.agent.lock().unwrap().id()
    }

    /// Asks `keyward-provider-node` for the logins of an image.
    pub(crate) fn ask(&self, image: &str, more: &Value) -> Ran {
        self.ask_with(image, more, |_| {})
    }

    pub(crate) fn ask_with(
        &self,
        image: &str,
        more: &Value,
        change: impl FnOnce(&mut Command),
    ) -> Ran {
        ask_with(&self.stage, image, more, change)
    }

    /// `keyward agent …`.
    pub(crate) fn keyward(&self, words: &[&str]) -> Ran {
        keyward(&self.stage, words)
    }

    /// How many clients are connected to the agent.
    pub(crate) fn clients(&self) -> usize {
        let metrics = self.keyward(&["metrics", "--system"]);
        let mut lines = metrics.good().lines();
        let line = lines.find_map(|line| line.strip_prefix("keyward_agent_connections_open "));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(agent) = self.agent.get_mut() {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

pub(crate) fn ask_with(
    stage: &Stage,
    image: &str,
    more: &Value,
    change: impl FnOnce(&mut Command),
) -> Ran {
    let mut request = json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": image,
    });
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut command = stage.bridge("keyward-provider-node");
    command.arg("--state").arg(stage.path("state"));
    command.arg("--metrics").arg(stage.path("keyward.prom"));
    command.env_remove("KEYWARD_AGENT").env(SOCKET, socket(stage));
    change(&mut command);
    run(&mut command, &request.to_string())
}

pub(crate) fn socket(stage: &Stage) -> PathBuf {
    stage.path("run/agent.sock")
}

fn private(directory: &Path) {
    DirBuilder::new().mode(0o700).create(directory).unwrap();
}

fn activate(stage: &Stage, listener: &UnixListener) -> Child {
    let stdin = OwnedFd::from(listener.try_clone().unwrap());
    agent(stage).stdin(Stdio::from(stdin)).stderr(Stdio::null()).spawn().unwrap()
}

fn agent(stage: &Stage) -> Command {
    let mut command = stage.program(Path::new(env!("CARGO_BIN_EXE_keyward")));
    command.args(["agent", "--system"]).env(SOCKET, socket(stage)).stdin(Stdio::null());
    command
}

fn keyward(stage: &Stage, words: &[&str]) -> Ran {
    let mut command = stage.program(Path::new(env!("CARGO_BIN_EXE_keyward")));
    run(command.arg("agent").args(words).env(SOCKET, socket(stage)), "")
}

#[test]
fn the_agent_keeps_the_socket_of_systemd_when_it_is_stopped() {
    let node = Node::new();
    let status = node.keyward(&["status", "--system"]);
    assert!(status.good().contains("secrets of image credential providers: 0"), "{status:?}");
    let status = node.keyward(&["--system", "status", "-o", "json"]).json();
    assert_eq!(status["socket"], socket(&node.stage).to_str().unwrap());
    assert_eq!(status["pid"], node.pid());
    node.keyward(&["stop", "--system"]).good();
    assert!(socket(&node.stage).exists());
    // The next client waits in its queue for the next agent.
    std::thread::scope(|scope| {
        let status = scope.spawn(|| node.keyward(&["status", "--system"]).good().to_owned());
        let pid = node.restart();
        let said = status.join().unwrap();
        assert!(said.contains(&format!("pid {pid}")), "{said}");
    });
}

#[test]
fn without_systemd_the_agent_makes_and_removes_the_socket_itself() {
    let stage = Stage::new();
    // A dead agent left its socket.
    private(&stage.path("run"));
    drop(UnixListener::bind(socket(&stage)).unwrap());
    let mut child = agent(&stage).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("listening on"), "{said}");
    let mode = fs::metadata(socket(&stage)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = run(&mut agent(&stage), "");
    second.bad(1, "another agent is already running");
    keyward(&stage, &["stop", "--system"]).good();
    assert!(child.wait().unwrap().success());
    assert!(!socket(&stage).exists());
    keyward(&stage, &["status", "--system"]).bad(1, "the node's agent is not running");
}

#[test]
fn an_agent_started_by_hand_leaves_the_socket_of_systemd_alone() {
    let node = Node::new();
    node.keyward(&["stop", "--system"]).good();
    run(&mut agent(&node.stage), "").bad(1, "another agent is already running");
    assert!(socket(&node.stage).exists());
}

#[test]
fn a_directory_that_others_can_enter_or_a_link_is_not_used() {
    let stage = Stage::new();
    private(&stage.path("run"));
    fs::set_permissions(stage.path("run"), fs::Permissions::from_mode(0o755)).unwrap();
    let why = "must be a directory with mode 0700";
    run(&mut agent(&stage), "").bad(1, why);
    fs::remove_dir(stage.path("run")).unwrap();
    private(&stage.path("elsewhere"));
    symlink(stage.path("elsewhere"), stage.path("run")).unwrap();
    run(&mut agent(&stage), "").bad(1, why);
    assert_eq!(fs::read_dir(stage.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn another_socket_on_standard_input_is_refused() {
    let stage = Stage::new();
    private(&stage.path("run"));
    let other = UnixListener::bind(stage.path("run/other.sock")).unwrap();
    let mut command = agent(&stage);
    let output = command.stdin(OwnedFd::from(other)).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("standard input is not"), "{said}");
}

#[test]
fn the_agent_of_the_node_runs_no_plugins_and_is_no_agent_of_a_user() {
    let node = Node::new();
    let mut command = node.stage.program(Path::new(env!("CARGO_BIN_EXE_keyward")));
    command.args(["agent", "status"]).env(SOCKET, socket(&node.stage));
    run(&mut command, "").bad(1, "no agent is running");
}

#[test]
fn a_program_that_others_can_change_does_not_become_a_service_of_root() {
    let stage = Stage::new();
    let open = stage.path("open");
    fs::create_dir(&open).unwrap();
    keyward_testing::plugin::copy(Path::new(env!("CARGO_BIN_EXE_keyward")), &open.join("keyward"));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = stage.program(&open.join("keyward"));
    command.args(["agent", "install-unit", "--system", "--dry-run"]);
    run(&mut command, "").bad(4, "open` can be written by everybody");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units_of_the_node() {
    let stage = Stage::new();
    let text = keyward(&stage, &["install-unit", "--system", "--dry-run"]).good().to_owned();
    let units: Vec<(PathBuf, &str)> = text
        .split("# /etc/systemd/system/")
        .skip(1)
        .map(|unit| {
            let (name, text) = unit.split_once('\n').unwrap();
            (stage.write(name, text), text)
        })
        .collect();
    let [(socket, _), (service, text)] = units.as_slice() else { panic!("{text}") };
    let verify = || {
        let mut command = Command::new("systemd-analyze");
        command.arg("verify").args([socket, service]).env("SYSTEMD_LOG_LEVEL", "warning");
        command.output().expect("systemd-analyze (Debian package `systemd`)")
    };
    let found = verify();
    assert!(found.status.success() && found.stderr.is_empty(), "{found:?}");
    for (right, wrong) in
        [("StandardInput=socket", "StandardInput=sokcet"), ("\" agent", "-gone\" agent")]
    {
        assert!(text.contains(right), "{text}");
        fs::write(service, text.replace(right, wrong)).unwrap();
        let found = verify();
        assert!(!found.stderr.is_empty(), "systemd notices `{wrong}`: {found:?}");
    }
}
