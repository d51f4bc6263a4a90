//! Plugins that need a person: one login, in the terminal that asked, for everybody.

use std::process::{Command, Stdio};

use keyward_testing::pty::Pty;
use rustix::process::Signal;

use crate::stage::{Stage, eventually, exec, request, said, signal, token};

fn in_terminal(stage: &Stage) -> Pty {
    spawn(&stage.kubectl_with(&request(true)))
}

/// A terminal's program inherits the environment of the test; `env` takes it away.
fn spawn(command: &Command) -> Pty {
    let mut clean = Command::new("env");
    clean.arg("-i").current_dir("/");
    for (name, value) in command.get_envs() {
        let mut word = name.to_owned();
        word.push("=");
        word.push(value.unwrap_or_default());
        clean.arg(word);
    }
    clean.arg(command.get_program()).args(command.get_args());
    Pty::spawn(&clean).unwrap()
}

#[test]
fn a_login_in_one_terminal_is_everybodys() {
    let stage = Stage::new();
    stage.set("ask", "");
    let mut person = in_terminal(&stage);
    person.wait_for("PIN: ");
    // Nobody else is asked, in a terminal or not.
    let mut other = in_terminal(&stage);
    let mut command = stage.kubectl();
    let background = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    other.wait_for("waiting for the login of `sh`");
    person.type_in("1234\n").unwrap();
    person.wait_for("t0ken");
    assert!(person.finish().success());
    other.wait_for("t0ken");
    assert!(other.finish().success());
    assert_eq!(token(&background.wait_with_output().unwrap()), "t0ken");
    assert_eq!(stage.runs(), 1);
    assert_eq!(stage.kept()["state"], "good");
}

#[test]
fn the_next_one_takes_over_when_whoever_logs_in_goes_away() {
    let stage = Stage::new();
    stage.set("ask", "");
    let mut person = in_terminal(&stage);
    person.wait_for("PIN: ");
    let mut other = in_terminal(&stage);
    eventually("both have asked", || stage.kept()["requests"] == 2);
    let client = child_of(person.id());
    signal(client, Signal::KILL);
    other.wait_for("PIN: ");
    other.type_in("1234\n").unwrap();
    other.wait_for("t0ken");
    assert!(other.finish().success());
    assert_eq!(stage.runs(), 2);
    drop(person);
}

#[test]
fn a_client_that_is_killed_while_it_runs_the_plugin_leaves_no_failure_to_the_next() {
    // Not registered, so that the client runs it.
    let stage = Stage::unregistered();
    for round in 0..5 {
        stage.set("hold", "");
        let mut command = stage.kubectl();
        command.env("ROUND", round.to_string());
        let mut client = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually("it runs the plugin", || stage.runs() == 2 * round + 1);
        signal(child_of(client.id()), Signal::KILL);
        stage.unset("hold");
        // At once, as somebody does who pressed Ctrl-C.
        assert_eq!(token(&command.output().unwrap()), "t0ken");
        client.wait().unwrap();
        assert_eq!(stage.runs(), 2 * round + 2);
    }
}

#[test]
fn background_requests_never_log_in_again_until_a_person_does() {
    let stage = Stage::new();
    stage.set("fail", "open https://idp.example/device and enter ABCD\n");
    for _ in 0..5 {
        let mut command = stage.kubectl();
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(said(&output).contains("keyward login --context prod"), "{output:?}");
    }
    assert_eq!(stage.runs(), 1);
    assert_eq!(stage.kept()["state"], "login needed");
    stage.unset("fail");
    let mut person = in_terminal(&stage);
    person.wait_for("t0ken");
    assert!(person.finish().success());
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 2);
}

#[test]
fn who_logs_out_is_not_logged_in_again_by_a_background_request() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let output = stage.keyward(&["logout", "--context", "prod"]);
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("remain valid until 2099-01-01"), "{told}");
    let output = stage.ask();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(said(&output).contains("signed out"), "{output:?}");
    assert_eq!(stage.runs(), 1);
    let output = stage.keyward(&["logout", "--context", "nowhere"]);
    assert!(said(&output).contains("has no credentials for context `nowhere`"), "{output:?}");
    let mut person = in_terminal(&stage);
    person.wait_for("t0ken");
    assert_eq!(stage.runs(), 2);
}

#[test]
fn keyward_login_logs_in_for_the_next_process() {
    let stage = Stage::new();
    stage.set("ask", "");
    let kubeconfig = stage.dir.path().join("home/.kube/config");
    std::fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    let [command, script] = stage.words();
    let user = serde_json::json!({ "name": "ann", "user": { "exec": {
        "apiVersion": crate::stage::VERSION,
        "command": exec(),
        "args": ["--", command, script],
        "interactiveMode": "IfAvailable",
    }}});
    let config = serde_json::json!({
        "current-context": "prod",
        "users": [user],
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "contexts": [{ "name": "prod", "context": { "cluster": "c", "user": "ann" } }],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let mut command = stage.command(keyward_testing::plugin::keyward());
    command.args(["login", "--context", "prod"]);
    let mut person = spawn(&command);
    person.wait_for("PIN: ");
    person.type_in("1234\n").unwrap();
    let ended = person.finish();
    assert!(ended.success(), "{}", person.screen());
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 1);
}

fn child_of(process: u32) -> i32 {
    let children = |id: u32| {
        let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        text.split_whitespace().map(|id| id.parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    let client = children(process).into_iter().next().unwrap();
    i32::try_from(client).unwrap()
}
