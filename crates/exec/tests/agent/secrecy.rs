//! What the agent holds is seen nowhere.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use keyward_agent::Client;
use keyward_protocol::{
    Secret,
    agent::{Message, SecretRequest, Served},
};
use keyward_testing::plugin::{agent, keyward};
use rustix::process::Signal;

use crate::{
    ordinary::is_ordinary_user,
    search::Search,
    stage::{Foreground, PATIENCE, Stage, VERSION, eventually, exec, request, token},
};

const NONE: [PathBuf; 0] = [];

/// The plugin of another user. Writes down what it got from the agent, and waits.
const OTHER: &str = r#"here=$(dirname "$0")
env >"$here/environment"
tr '\0' ' ' </proc/$$/cmdline >"$here/arguments"
ls -l /proc/$$/fd >"$here/descriptors"
echo >"$here/ready"
while [ -e "$here/hold-other" ]; do sleep 0.02; done
cat "$here/first"
"#;

#[test]
fn another_program_of_the_user_finds_no_secret_of_the_agent() {
    if is_ordinary_user("secrecy::another_program_of_the_user_finds_no_secret_of_the_agent") {
        finds_nothing(&[agent().to_str().unwrap()], Signal::ABORT);
    }
}

#[test]
fn another_program_of_the_user_finds_no_secret_of_an_agent_that_writes_a_log() {
    let own = "another_program_of_the_user_finds_no_secret_of_an_agent_that_writes_a_log";
    if is_ordinary_user(&format!("secrecy::{own}")) {
        finds_nothing(&[keyward().to_str().unwrap(), "agent", "-vvv"], Signal::QUIT);
    }
}

/// Gives secrets to an agent, looks for them everywhere, and ends it by a signal that leaves a core.
fn finds_nothing(words: &[&str], end: Signal) {
    let stage = Stage::unregistered();
    let (home, agents_own) = (stage.dir.path().join("home"), stage.dir.path().join("home/agent"));
    fs::create_dir(&agents_own).unwrap();
    let name = stage.dir.path().file_name().unwrap().to_str().unwrap();
    // One that a plugin prints, one that a kubeconfig sets for a plugin, one that a provider puts.
    let [printed, set, put] = ["printed", "set", "put"].map(|kind| format!("{kind}-{name}"));
    let search = Search { marks: vec![printed.clone(), set.clone(), put.clone()] };
    let kubeconfig = wrapped(&stage, &set);

    let log = File::create(home.join("agent.log")).unwrap();
    let mut command = dumps_core(&stage, words, &agents_own);
    command.stdout(log.try_clone().unwrap()).stderr(log);
    let mut agent = Foreground(command.spawn().unwrap());
    let socket = stage.dir.path().join("run/keyward/agent.sock");
    eventually("the agent listens", || Client::connect(&socket).is_ok());

    stage.answer(&printed);
    let asked = || token(&stage.kubectl().env("API_KEY", &set).output().unwrap());
    assert_eq!(asked(), printed);
    fs::remove_file(stage.plugin("answer")).unwrap();
    assert_eq!(asked(), printed, "the agent has it");
    give(&socket, &put);
    stage.set("other", OTHER);
    stage.set("hold-other", "");
    let mut other = stage.command("sh");
    other.args(["-c", "\"$@\"; exit $?", "kubectl"]).arg(exec()).args(["--", "sh"]);
    other.arg(stage.plugin("other")).env("KUBERNETES_EXEC_INFO", request(false));
    let other = other.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the other plugin runs", || stage.plugin("ready").exists());

    // The search finds what can be found: so far one of them is in the kubeconfig.
    assert_eq!(search.files(stage.dir.path()), [kubeconfig.as_path()]);
    fs::remove_file(&kubeconfig).unwrap();
    assert_eq!(search.files(stage.dir.path()), NONE);
    assert_eq!(search.shared_directories(), NONE);
    assert_eq!(search.processes(), NONE);
    assert!(!search.is_in(stage.status().to_string().as_bytes()));
    canary(&stage, &search, [&printed, &set, &put]);

    keeps_its_memory(&stage, agent.0.id());
    stage.unset("hold-other");
    assert_eq!(token(&other.wait_with_output().unwrap()), "t0ken");
    crate::stage::signal(agent.0.id().try_into().unwrap(), end);
    let status = agent.0.wait().unwrap();
    assert!(!status.core_dumped(), "{status}");
    assert_eq!(fs::read_dir(&agents_own).unwrap().count(), 0, "there is no core file");
    assert_eq!(search.files(stage.dir.path()), NONE);
    let logged = fs::metadata(home.join("agent.log")).unwrap().len();
    assert!(logged > 0, "there was something to search");
}

/// Wraps a kubeconfig with two users, one of whom has a secret in it.
fn wrapped(stage: &Stage, secret: &str) -> PathBuf {
    let kubeconfig = stage.dir.path().join("home/.kube/config");
    fs::create_dir(kubeconfig.parent().unwrap()).unwrap();
    let user = |name: &str, script: &str, env: &str| {
        let script = stage.plugin(script);
        format!(
            "- name: {name}\n  user:\n    exec:\n      apiVersion: {VERSION}\n      command: sh\n      \
             args: [{}]\n{env}      interactiveMode: Never\n",
            script.display()
        )
    };
    let env = format!("      env: [{{name: API_KEY, value: {secret}}}]\n");
    let text = format!("users:\n{}{}", user("ann", "plugin", &env), user("bob", "other", ""));
    fs::write(&kubeconfig, text).unwrap();
    let output = stage.keyward(&["wrap", "--all", "--wrapper", exec().to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    kubeconfig
}

/// A command that leaves a core file in this directory, if it does nothing against that.
fn dumps_core(stage: &Stage, words: &[&str], directory: &Path) -> Command {
    let mut command = stage.command("sh");
    let script = "ulimit -c $(ulimit -H -c); exec \"$@\"";
    command.args(["-c", script, "sh"]).args(words).current_dir(directory);
    command
}

/// Puts a secret, as an image credential provider does.
fn give(socket: &Path, secret: &str) {
    let mut client = Client::connect(socket).unwrap();
    let put = SecretRequest::Put("registry".into(), Secret::new(secret), 0);
    client.ask(&Message::Secret(put)).unwrap();
    let served = client.receive(PATIENCE).unwrap();
    assert!(matches!(served, Message::Served(Served::Done(_))), "{served:?}");
}

/// A process that protects nothing: the search finds what it has in its arguments, its environment
/// and its memory, and so do a debugger and the system's core file.
fn canary(stage: &Stage, search: &Search, [argument, variable, memory]: [&str; 3]) {
    let directory = stage.dir.path().join("home/canary");
    fs::create_dir(&directory).unwrap();
    // The second line never comes.
    let script = "read -r kept; read -r more";
    let mut command = dumps_core(stage, &["sh", "-c", script, "sh", argument], &directory);
    let mut child = command.env("SECRET", variable).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut canary = Foreground(child);
    writeln!(stdin, "{memory}").unwrap();
    let id = canary.0.id();
    let memory = Search { marks: vec![memory.to_owned()] };
    eventually("the canary has read its secret", || memory.is_in_memory(id));
    let found = search.processes();
    for name in ["cmdline", "environ", "mem"] {
        let path = PathBuf::from(format!("/proc/{id}/{name}"));
        assert!(found.contains(&path), "{} is not in {found:?}", path.display());
    }
    if is_debugging_allowed() {
        let core = debugged(stage, id).expect("the debugger writes a core file");
        assert!(memory.is_in(&fs::read(&core).unwrap()));
        fs::remove_file(core).unwrap();
    }
    crate::stage::signal(id.try_into().unwrap(), Signal::ABORT);
    let status = canary.0.wait().unwrap();
    assert_eq!(status.signal(), Some(6), "{status}");
    if writes_core_files() {
        assert!(status.core_dumped(), "{status}");
        assert_eq!(memory.files(&directory).len(), 1);
    }
    fs::remove_dir_all(directory).unwrap();
}

/// Nothing of the agent's memory can be had by a process of the same user.
fn keeps_its_memory(stage: &Stage, agent: u32) {
    let refused = |name: &str, result: std::io::Result<()>| match result {
        Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{name}: {error}"),
        Ok(()) => panic!("`{name}` of the agent can be read"),
    };
    let path = |name: &str| format!("/proc/{agent}/{name}");
    for name in ["mem", "environ", "maps", "smaps", "auxv"] {
        // Some are refused only when they are read.
        refused(name, fs::read(path(name)).map(drop));
    }
    for name in ["fd", "map_files"] {
        refused(name, fs::read_dir(path(name)).map(drop));
    }
    refused("exe", fs::read_link(path("exe")).map(drop));
    assert_eq!(debugged(stage, agent), None, "a debugger is refused");
    let limits = fs::read_to_string(path("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}

/// The core file that a debugger writes of a process.
fn debugged(stage: &Stage, id: u32) -> Option<PathBuf> {
    let prefix = stage.dir.path().join("home/gcore");
    let mut command = stage.command("gcore");
    command.arg("-o").arg(&prefix).arg(id.to_string());
    command.output().expect("gcore (Debian package `gdb`)");
    let core = prefix.with_extension(id.to_string());
    core.exists().then_some(core)
}

/// Whether a process may debug another one that it did not start.
fn is_debugging_allowed() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.map_or(true, |scope| scope.trim() == "0")
}

/// Whether the system writes core files to the directory of a process, rather than nowhere or to a
/// program.
fn writes_core_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    pattern.starts_with("core") && core.split_whitespace().nth(5) != Some("0")
}

#[test]
fn the_agent_keeps_no_descriptor_and_no_environment_of_whoever_started_it() {
    let stage = Stage::new();
    // Its stdout is a pipe that ends only when nobody has it any more.
    let output = stage.kubectl().env("FROM_THE_FIRST_CLIENT", "1").output().unwrap();
    assert!(output.status.success());
    let agent = stage.agent();
    for number in 0..=2 {
        let target = fs::read_link(format!("/proc/{agent}/fd/{number}")).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"));
    }
    let environment = fs::read(format!("/proc/{agent}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("FROM_THE_FIRST_CLIENT"));
    assert_eq!(fs::read_link(format!("/proc/{agent}/cwd")).unwrap().to_str(), Some("/"));
    let stat = fs::read_to_string(format!("/proc/{agent}/stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, agent.to_string(), "a session of its own");
    let limits = fs::read_to_string(format!("/proc/{agent}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
}
