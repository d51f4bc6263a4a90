//! What Prometheus learns about the agent.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use rustix::process::Signal;

use crate::stage::{Foreground, Stage, signal};

fn metrics(stage: &Stage) -> String {
    let output = stage.keyward(&["agent", "metrics"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn assert_has(metrics: &str, lines: &[&str]) {
    for line in lines {
        assert!(metrics.lines().any(|known| known == *line), "{line} is not in:\n{metrics}");
    }
}

#[test]
fn metrics_count_requests_and_runs_and_name_nothing_that_is_kept() {
    let stage = Stage::new();
    let none = metrics(&stage);
    assert_has(&none, &["keyward_agent_up 0"]);
    assert!(!none.contains("keyward_agent_requests_total"), "{none}");
    assert!(stage.agents().is_empty(), "to look starts nothing");
    assert_eq!((stage.token(), stage.token()), ("t0ken".into(), "t0ken".into()));
    let kept = metrics(&stage);
    assert_has(
        &kept,
        &[
            "keyward_agent_up 1",
            "keyward_agent_requests_total{outcome=\"run\"} 1",
            "keyward_agent_requests_total{outcome=\"cached\"} 1",
            "keyward_agent_credentials{state=\"good\"} 1",
            "keyward_agent_credentials{state=\"login_needed\"} 0",
            "keyward_agent_connections_open 0",
            "rest_client_exec_plugin_call_total{code=\"0\",call_status=\"no_error\"} 1",
            "keyward_refresh_duration_seconds_count{outcome=\"success\"} 1",
        ],
    );
    for name in ["t0ken", "ann", "prod", "plugin/plugin"] {
        assert!(!kept.contains(name), "`{name}` is in:\n{kept}");
    }
    assert!(stage.keyward(&["agent", "lock"]).status.success());
    assert!(!stage.ask().status.success());
    let locked = ["keyward_agent_locked 1", "keyward_agent_requests_total{outcome=\"locked\"} 1"];
    assert_has(&metrics(&stage), &locked);
}

#[test]
fn a_plugin_that_fails_is_counted_whoever_runs_it() {
    for stage in [Stage::new(), Stage::unregistered()] {
        stage.set("fail", "no network");
        assert!(!stage.ask().status.success());
        let code = "rest_client_exec_plugin_call_total{code=\"1\",call_status=\"plugin_execution_error\"} 1";
        assert_has(
            &metrics(&stage),
            &[
                code,
                "keyward_refresh_duration_seconds_count{outcome=\"failure\"} 1",
                "keyward_agent_requests_total{outcome=\"failure\"} 1",
                "keyward_agent_credentials{state=\"failed\"} 1",
            ],
        );
    }
}

#[test]
fn metrics_are_served_whether_or_not_an_agent_is_running() {
    let stage = Stage::new();
    let mut command = stage.command(keyward_testing::plugin::keyward());
    command.args(["agent", "metrics", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let _server = Foreground(child);
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let url = line.strip_prefix("metrics ").unwrap().trim_end();
    let curl = |words: &[&str]| {
        let output = Command::new("curl").args(["-s", "-w", "%{http_code}"]).args(words).output();
        String::from_utf8(output.expect("curl (Debian package `curl`)").stdout).unwrap()
    };
    assert_has(&curl(&[url]), &["keyward_agent_up 0", "200"]);
    assert_eq!(stage.token(), "t0ken");
    let running = ["keyward_agent_up 1", "keyward_agent_credentials{state=\"good\"} 1", "200"];
    assert_has(&curl(&[url]), &running);
    assert!(curl(&["-H", "Host: evil.example", url]).ends_with("403"));
    assert!(curl(&["-H", "Authorization: Bearer x", url]).ends_with("403"));
    let agent = stage.agent();
    signal(agent, Signal::STOP);
    let stopped = curl(&[url]);
    signal(agent, Signal::CONT);
    assert_eq!(stopped, "the agent does not answer\n503");
    assert!(stage.keyward(&["agent", "stop"]).status.success());
    assert_has(&curl(&[url]), &["keyward_agent_up 0", "200"]);
}

#[test]
fn metrics_are_served_to_other_machines_only_if_they_are_named() {
    let stage = Stage::new();
    let output = stage.keyward(&["agent", "metrics", "--listen", "0.0.0.0:0"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--danger-listen-remote"), "{said}");
    assert!(fs::read_dir(stage.dir.path().join("run")).unwrap().next().is_none());
}
