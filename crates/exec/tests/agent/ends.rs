//! An agent that is stopped, and the next one.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use crate::stage::{Foreground, Stage, eventually, exec, request};

/// Starts an agent and waits until it listens.
fn start(stage: &Stage) -> Foreground {
    let mut command = stage.command(keyward_testing::plugin::agent());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let agent = Foreground(child);
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    agent
}

fn stop(stage: &Stage, agent: &mut Foreground) {
    let output = stage.keyward(&["agent", "stop"]);
    assert!(output.status.success(), "{output:?}");
    let status = agent.0.try_wait().unwrap();
    assert!(status.is_some_and(|status| status.success()), "it has ended: {status:?}");
}

#[test]
fn the_next_agent_starts_as_soon_as_the_last_one_is_stopped() {
    let stage = Stage::new();
    for _ in 0..20 {
        let mut agent = start(&stage);
        stop(&stage, &mut agent);
    }
}

#[test]
fn an_agent_that_is_stopped_while_it_runs_a_plugin_ends_before_the_command_does() {
    let stage = Stage::new();
    stage.set("hold", "");
    for round in 1..=3 {
        let mut agent = start(&stage);
        let mut asks = stage.command(exec());
        asks.arg("--").args(stage.words()).env("KUBERNETES_EXEC_INFO", request(false));
        let client = Foreground(asks.spawn().unwrap());
        eventually("the plugin runs", || stage.runs() >= round);
        // It would start an agent and run the plugin anew.
        drop(client);
        stop(&stage, &mut agent);
    }
}

#[test]
fn stopping_where_no_agent_runs_is_no_error() {
    assert!(Stage::new().keyward(&["agent", "stop"]).status.success());
}
