//! No plugin outlives the program, whatever ends it. `KEYWARD_ROUNDS` says how often each is tried.

use std::process::Stdio;

use keyward_testing::orphans::{
    assert_gone, hangs, pids, rounds, wait_until_guarded, with_default_signals,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    stage::{Stage, exec},
    terminal::at_terminal,
};

#[test]
fn no_plugin_outlives_a_program_that_is_killed() {
    for line in ["credential", "get --raw /version"] {
        // The last one is what a fault of the program itself ends in; a panic ends it like any exit, which
        // the host's tests try.
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL, Signal::SIGABRT] {
            for round in 0..rounds() {
                let stage = Stage::new();
                stage.plugin("p", &hangs(&stage.path("pids")));
                stage.kubeconfig(&exec("p"));
                let mut command = with_default_signals(&stage.command(line.split(' ')));
                let mut program = command
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                let plugin = pids(&stage.path("pids"));
                let pid = program.id().try_into().unwrap();
                wait_until_guarded(pid);
                kill(Pid::from_raw(pid), signal).unwrap();
                assert_gone(&plugin, &format!("{line}, {signal}, round {round}"));
                program.wait().unwrap();
            }
        }
    }
}

#[test]
fn no_attended_plugin_outlives_a_program_that_is_killed() {
    // It is in our process group, where only it itself can be told, and not what it has started.
    let script = |stage: &Stage| {
        let file = stage.path("pids");
        let file = file.display();
        format!("trap '' HUP INT TERM; echo $$ > {file}.new; mv {file}.new {file}; exec sleep 600")
    };
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        for round in 0..rounds() {
            let stage = Stage::new();
            stage.plugin("p", &script(&stage));
            stage.kubeconfig(&exec("p").replace("Never", "IfAvailable"));
            let mut pty = at_terminal(&stage, "credential & echo $! > new; mv new program; wait");
            let plugin = pids(&stage.path("pids"));
            let program = pids(&stage.path("program"));
            wait_until_guarded(program[0]);
            kill(Pid::from_raw(program[0]), signal).unwrap();
            assert_gone(&plugin, &format!("{signal}, round {round}"));
            pty.finish();
        }
    }
}
