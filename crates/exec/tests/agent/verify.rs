//! Credentials that a server refuses, or only seems to.

use std::{fs, process::Command};

use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use serde_json::json;

use crate::stage::{Stage, VERSION, exec, request, token};

/// A server, and a kubeconfig with a wrapped plugin for it that is not registered.
pub(crate) fn unregistered() -> (Stage, Server) {
    let (stage, server) = (Stage::unregistered(), Server::setup().start().unwrap());
    let [command, script] = stage.words();
    let user = json!({ "exec": {
        "apiVersion": VERSION,
        "command": exec(),
        "args": ["--", command, script],
        "interactiveMode": "Never",
    }});
    let kubeconfig = stage.dir.path().join("home/.kube/config");
    fs::create_dir_all(kubeconfig.parent().unwrap()).unwrap();
    fs::write(kubeconfig, server.kubeconfig(&user)).unwrap();
    (stage, server)
}

/// A server that the agent knows, because the plugin is registered for it.
pub(crate) fn registered() -> (Stage, Server) {
    let (stage, server) = unregistered();
    stage.register_for(&server.url());
    (stage, server)
}

/// A client that asks this often, as a program does that builds several clients.
fn asks(stage: &Stage, times: usize) -> Command {
    let mut command = stage.command("sh");
    let script = "n=$1; shift; while [ $n -gt 1 ]; do \"$@\" >/dev/null; sleep 0.05; n=$((n-1)); done; \"$@\"; exit $?";
    command.args(["-c", script, "client", &times.to_string()]).arg(exec()).arg("--");
    command.args(stage.words()).env("KUBERNETES_EXEC_INFO", request(false));
    command
}

#[test]
fn a_credential_that_the_server_accepts_is_not_replaced() {
    let (stage, server) = registered();
    server.users().token("t0ken", User::new("ann"));
    assert_eq!(token(&asks(&stage, 8).output().unwrap()), "t0ken");
    assert_eq!(stage.runs(), 1);
    let reviews = server.counts().requests;
    assert!((1..=2).contains(&reviews), "{reviews} questions to the server");
    // Not without being allowed to.
    assert!(stage.keyward(&["agent", "stop"]).status.success());
    let mut command = asks(&stage, 2);
    command.env("KEYWARD_AGENT_VERIFY", "off");
    assert_eq!(token(&command.output().unwrap()), "t0ken");
    assert_eq!(server.counts().requests, reviews);
}

#[test]
fn a_credential_that_the_server_refuses_is_replaced() {
    let (stage, server) = registered();
    server.users().token("new", User::new("ann"));
    assert_eq!(stage.token(), "t0ken");
    stage.answer("new");
    assert_eq!(token(&asks(&stage, 2).output().unwrap()), "new");
    assert_eq!(stage.runs(), 2);
}

#[test]
fn ten_kubectls_at_a_server_that_refuses_everything_make_four_runs_at_most() {
    let (stage, _server) = registered();
    for _ in 0..10 {
        let mut command = stage.command(&kubectl::installed().path);
        let output = command.args(["get", "--raw", "/api"]).output().unwrap();
        assert!(!output.status.success());
    }
    let runs = stage.runs();
    assert!((1..=4).contains(&runs), "{runs} runs");
}

#[test]
fn kubectl_gets_the_credential_from_the_agent() {
    let (stage, server) = registered();
    server.users().token("t0ken", User::new("ann"));
    for _ in 0..5 {
        let mut command = stage.command(&kubectl::installed().path);
        let output = command.args(["get", "--raw", "/healthz"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    assert_eq!(stage.runs(), 1);
    let clients = stage.kept()["clients"].as_str().unwrap().to_owned();
    assert!(clients.starts_with("kubectl"), "{clients}");
}
