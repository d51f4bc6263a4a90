//! `keyward proxy -- COMMAND`, and how a proxy ends.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::Stdio,
};

use keyward_testing::{kubectl, pty::Pty, server::User};
use serde_json::json;

use crate::stage::{Stage, pod, signal};

#[test]
fn a_command_runs_with_the_proxys_kubeconfig_and_gives_its_exit_code() {
    let stage = Stage::new();
    stage.server.store().put(&pod("a")).unwrap();
    let mut command = stage.keyward(&["proxy", "--"]);
    command.arg(&kubectl::installed().path).args(["get", "pods", "-o", "name"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"pod/a\n"[..], &b""[..]));
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let output = stage.keyward(&["proxy", "--", "sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
    let data = stage.write("data", "");
    let data = data.to_str().unwrap();
    for (name, code) in [("/no/such/program", 127), ("no-such-program", 127), (data, 126)] {
        let output = stage.keyward(&["proxy", "--", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
    let left: Vec<_> = std::fs::read_dir(stage.path("run/keyward")).unwrap().collect();
    assert_eq!(left.len(), 1, "only the lock of all: {left:?}");
}

#[test]
fn the_second_kubectl_asks_only_its_own_question() {
    let stage = Stage::new();
    let asked = || {
        let mut command = stage.keyward(&["proxy", "--"]);
        command.arg(&kubectl::installed().path).args(["get", "ns"]);
        stage.server.recorder().clear();
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let records = stage.server.recorder().all();
        records.iter().map(|record| record.uri.path().to_owned()).collect::<Vec<String>>()
    };
    let first = asked();
    assert!(first.iter().any(|path| path == "/apis"), "{first:?}");
    assert_eq!(asked(), ["/api/v1/namespaces"]);
}

#[test]
fn a_signal_reaches_the_command_and_the_proxy_ends_after_it() {
    let stage = Stage::new();
    let script = "trap 'echo got it; exit 5' TERM; echo up; while :; do sleep 0.05; done";
    let mut command = stage.keyward(&["proxy", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    signal(&child, "TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_command_has_the_terminal() {
    let stage = Stage::new();
    let script = "trap 'echo inter\"rupted\"; exit 9' INT; test -t 0 && echo on-a-\"terminal\"; \
                  while read -r x; do :; done";
    let command = stage.keyward(&["proxy", "--", "sh", "-c", script]);
    let mut terminal = Pty::spawn(&command).unwrap();
    terminal.wait_for("on-a-terminal");
    terminal.type_in("\x03").unwrap();
    terminal.wait_for("interrupted");
    assert_eq!(terminal.finish().code(), Some(9), "{}", terminal.screen());
}

#[test]
fn a_plugin_that_asks_has_the_terminal_before_the_command_has_it() {
    let stage = Stage::new();
    let plugin = r#"printf 'Password: ' >/dev/tty; read -r word </dev/tty
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"'$word'"}}'"#;
    stage.server.users().token("typed-in", User::new("anna"));
    let user = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Always",
        "command": "sh", "args": ["-c", plugin],
    } });
    stage.write("config", &stage.server.kubeconfig(&user));
    let script = "echo command-\"began\"; \"$KUBECTL\" get --raw /healthz; read -r line; \
                  echo it-\"got\" $line";
    let mut command = stage.keyward(&["proxy", "--", "sh", "-c", script]);
    command.env("KUBECTL", &kubectl::installed().path);
    let mut terminal = Pty::spawn(&command).unwrap();
    terminal.wait_for("Password: ");
    assert!(!terminal.screen().contains("command-began"), "{}", terminal.screen());
    terminal.type_in("typed-in\n").unwrap();
    terminal.wait_for("command-began");
    terminal.type_in("mine\n").unwrap();
    terminal.wait_for("it-got mine");
    assert_eq!(terminal.finish().code(), Some(0), "{}", terminal.screen());
}

#[test]
fn a_signal_of_a_process_reaches_the_command_on_a_terminal_too() {
    let stage = Stage::new();
    let script =
        "trap 'echo passed-\"on\"; exit 9' INT; kill -INT $PPID; while :; do sleep 0.05; done";
    let mut terminal = Pty::spawn(&stage.keyward(&["proxy", "--", "sh", "-c", script])).unwrap();
    terminal.wait_for("passed-on");
    assert_eq!(terminal.finish().code(), Some(9), "{}", terminal.screen());
}

#[test]
fn what_is_under_way_is_finished_before_the_end() {
    let stage = Stage::new();
    stage.server.store().put(&pod("a")).unwrap();
    stage.server.logs().write("default", "a", "one");
    let mut proxy = stage.proxy(&["--grace", "60s"]);
    let mut follow = proxy.start(&["logs", "-f", "a"]);
    let mut lines = follow.lines();
    assert_eq!(lines.next().unwrap(), "one");
    signal(&proxy.child, "TERM");
    assert!(proxy.line().contains("finishing 1 request"), "it says what it waits for");
    stage.server.logs().write("default", "a", "two");
    assert_eq!(lines.next().unwrap(), "two");
    stage.server.logs().end("default", "a");
    assert_eq!(lines.next(), None);
    assert!(follow.0.wait().unwrap().success());
    assert!(proxy.child.wait().unwrap().success());
    assert!(!proxy.kubeconfig.exists());
}

#[test]
fn asked_twice_it_ends_at_once() {
    let stage = Stage::new();
    stage.server.store().put(&pod("a")).unwrap();
    let mut proxy = stage.proxy(&["--grace", "1h"]);
    let mut watch = proxy.start(&["get", "pods", "-w", "-o", "name"]);
    let mut lines = watch.lines();
    assert_eq!(lines.next().unwrap(), "pod/a");
    // That was a list; what comes later is told by the watch, which is under way then.
    stage.server.store().put(&pod("b")).unwrap();
    assert_eq!(lines.next().unwrap(), "pod/b");
    signal(&proxy.child, "INT");
    proxy.line();
    signal(&proxy.child, "INT");
    let status = proxy.child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(0), None));
}

#[test]
fn it_ends_by_itself_when_nobody_asks() {
    let stage = Stage::new();
    let mut proxy = stage.proxy(&["--idle-timeout", "1s"]);
    assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    assert!(proxy.child.wait().unwrap().success());
    let mut rest = String::new();
    proxy.stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
