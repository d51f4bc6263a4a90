//! Agents that die, hang, or leave things behind.

use std::{
    fs,
    os::unix::net::UnixListener,
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::stage::{Stage, eventually, signal, token};

#[test]
fn whenever_the_agent_is_killed_every_request_is_answered() {
    let stage = Stage::new();
    for step in 0..30_u64 {
        let start = |_| {
            let mut command = stage.kubectl();
            // Each is its own identity, so that a run is under way too.
            command.env("ROUND", (step / 3).to_string());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let children: Vec<_> = (0..3).map(start).collect();
        // Somewhere between the start of a client and its end.
        std::thread::sleep(Duration::from_millis(step * 2));
        for agent in stage.agents() {
            signal(agent, Signal::KILL);
        }
        for child in children {
            assert_eq!(token(&child.wait_with_output().unwrap()), "t0ken", "step {step}");
        }
    }
    // Nothing that was left behind stops the next one.
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.agents().len(), 1);
}

#[test]
fn an_agent_that_does_not_answer_is_done_without() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let agent = stage.agent();
    signal(agent, Signal::STOP);
    let begun = Instant::now();
    assert_eq!(stage.token(), "t0ken");
    let took = begun.elapsed();
    assert_eq!(stage.runs(), 2);
    // Half a second, and the rest is room for a machine that has other things to do.
    assert!(took < Duration::from_secs(10), "{took:?}");
    signal(agent, Signal::CONT);
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 2);
}

#[test]
fn an_agent_that_stops_while_a_client_waits_is_done_without() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let agent = stage.agent();
    stage.set("hold", "");
    let mut command = stage.kubectl();
    command.env("ROUND", "2").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually("the agent runs the plugin", || stage.runs() == 2);
    signal(agent, Signal::STOP);
    stage.unset("hold");
    assert_eq!(token(&child.wait_with_output().unwrap()), "t0ken");
    assert_eq!(stage.runs(), 3);
}

#[test]
fn a_socket_that_a_dead_agent_left_is_replaced() {
    let stage = Stage::new();
    let directory = stage.dir.path().join("run/keyward");
    fs::create_dir(&directory).unwrap();
    crate::stage::private(&directory);
    drop(UnixListener::bind(directory.join("agent.sock")).unwrap());
    fs::write(directory.join("agent.lock"), "").unwrap();
    fs::write(directory.join("start.lock"), "").unwrap();
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 1);
}

#[test]
fn an_agent_that_is_told_to_stop_leaves_nothing_behind() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let agent = stage.agent();
    let output = stage.keyward(&["agent", "stop"]);
    assert!(output.status.success(), "{output:?}");
    eventually("the agent has ended", || !stage.agents().contains(&agent));
    assert!(!stage.dir.path().join("run/keyward/agent.sock").exists());
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 2);
}

#[test]
fn a_termination_signal_ends_the_agent_and_a_hang_up_does_not() {
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let agent = stage.agent();
    signal(agent, Signal::HUP);
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 1);
    signal(agent, Signal::TERM);
    eventually("the agent has ended", || stage.agents().is_empty());
    assert!(!stage.dir.path().join("run/keyward/agent.sock").exists());
}
